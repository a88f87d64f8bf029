"""Run a step's forward pass: as a captured graph where a device has graphs, else as a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from octavo.device.attention.interface import ForwardContext

Forward = Callable[[Tensor, Tensor, ForwardContext], Tensor]


class Graphs(Protocol):
    """How the forward pass of a step is launched."""

    def forward(self, token_ids: Tensor, positions: Tensor, ctx: ForwardContext) -> Tensor:
        """Return the hidden states of ``model.forward(token_ids, positions, ctx)``."""


class NoGraphs:
    """Call the model. What a device without graphs does."""

    def __init__(self, forward: Forward) -> None:
        self._forward = forward

    def forward(self, token_ids: Tensor, positions: Tensor, ctx: ForwardContext) -> Tensor:
        """Call the model's forward pass."""
        return self._forward(token_ids, positions, ctx)
