"""Qwen3: head size stands apart from the hidden size; a window on later layers where asked for."""

from __future__ import annotations

from dataclasses import replace

from octavo.config.model import ModelConfig
from octavo.resolve.facts import MAX_SIZE
from octavo.resolve.fields import Fields
from octavo.resolve.models.base import windows_by_layer


def _read(config: Fields, model: ModelConfig) -> ModelConfig:
    config.integer("head_dim", 1, MAX_SIZE)  # its default is not hidden size over heads
    return replace(model, mlp_bias=False, layers=windows_by_layer(config, model.num_layers))


READER = _read
