"""Qwen2: biases on queries, keys and values always; a window on later layers where asked for."""

from __future__ import annotations

from dataclasses import replace

from octavo.config.model import ModelConfig
from octavo.resolve.fields import Fields
from octavo.resolve.models.base import windows_by_layer


def _read(config: Fields, model: ModelConfig) -> ModelConfig:
    return replace(
        model,
        attention_bias=True,
        output_bias=False,
        mlp_bias=False,
        layers=windows_by_layer(config, model.num_layers),
    )


READER = _read
