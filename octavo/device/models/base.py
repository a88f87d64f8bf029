"""What a model must provide."""

from __future__ import annotations

from typing import ClassVar, Protocol

from torch import Tensor, nn

from octavo.config.model import ModelConfig
from octavo.device.attention.interface import AttentionBackend, AttentionSpec, ForwardContext
from octavo.device.layers.build import Build
from octavo.device.layers.weight_map import WeightMap
from octavo.kit.extension import ExtensionPoint

MODEL_FILES = ExtensionPoint(
    group="octavo.models", package="octavo.device.models", attribute="MODELS"
)
"""One file per ``model_type``; its ``MODELS`` maps architectures to classes."""


class ModelClass(Protocol):
    """A class in ``MODELS``: builds the layers of a config, and names their weights."""

    weights: ClassVar[WeightMap]

    def __call__(self, config: ModelConfig, build: Build, /) -> nn.Module:
        """Return the model, its parameters allocated and not filled."""


class CausalModel(Protocol):
    """A decoder that turns tokens into hidden states, and hidden states into logits.

    T tokens this step, S positions that sample, V vocabulary.
    """

    def forward(self, token_ids: Tensor, positions: Tensor, ctx: ForwardContext) -> Tensor:
        """Return hidden states.

        Shapes:
            token_ids: [T] int64
            positions: [T] int64
            returns: [T, hidden_size]
        """

    def compute_logits(self, hidden: Tensor) -> Tensor:
        """Return logits in float32.

        Shapes:
            hidden: [S, hidden_size]
            returns: [S, V]
        """

    def attention_layers(self) -> list[tuple[AttentionSpec, AttentionBackend]]:
        """Spec and chosen backend of each attention layer, in order of layer number."""
