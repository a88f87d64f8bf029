"""Mistral: a window on every layer where the config has one; no biases."""

from __future__ import annotations

from dataclasses import replace

from octavo.config.model import LayerConfig, ModelConfig
from octavo.resolve.facts import MAX_CONTEXT
from octavo.resolve.fields import Fields


def _read(config: Fields, model: ModelConfig) -> ModelConfig:
    model = replace(model, attention_bias=False, output_bias=False, mlp_bias=False)
    if not config.has("sliding_window"):
        return model
    window = config.integer("sliding_window", 1, MAX_CONTEXT)
    return replace(model, layers=(LayerConfig(window=window),) * model.num_layers)


READER = _read
