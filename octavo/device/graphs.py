"""Run a step's forward pass: as a captured graph where a device has graphs, else as a call."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from octavo.device.attention.interface import ForwardContext

logger = logging.getLogger(__name__)

Forward = Callable[[Tensor, Tensor, ForwardContext], Tensor]
Tokens = Callable[[], Tensor]
"""Gathers a step's token ids on the device."""

_SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512)
"""Requests that graphs are captured for."""
_LEAST_POSITIONS = 1024


@dataclass(frozen=True, slots=True)
class Room:
    """What a step is padded to, so that few shapes occur."""

    requests: int
    positions: int
    """Longest context."""
    draws: bool = False
    """Tokens are drawn with the forward pass."""


class Graphs(Protocol):
    """How the forward pass of a step is launched."""

    def room_for(self, num_requests: int, num_tokens: int, longest: int) -> Room | None:
        """What a step is to be padded to; None leaves it as it is."""

    def forward(
        self, tokens: Tokens, positions: Tensor, ctx: ForwardContext, room: Room | None
    ) -> Tensor:
        """Return the hidden states of ``model.forward(tokens(), positions, ctx)``.

        They are valid until the next call. With a room, inputs of equal rooms must lie at the
        same places.
        """


class NoGraphs:
    """Call the model. What a device without graphs does."""

    def __init__(self, forward: Forward) -> None:
        self._forward = forward

    def room_for(
        self,
        num_requests: int,  # noqa: ARG002 (interface)
        num_tokens: int,  # noqa: ARG002 (interface)
        longest: int,  # noqa: ARG002 (interface)
    ) -> Room | None:
        """Pad nothing."""
        return None

    def forward(
        self,
        tokens: Tokens,
        positions: Tensor,
        ctx: ForwardContext,
        room: Room | None,  # noqa: ARG002 (interface)
    ) -> Tensor:
        """Call the model's forward pass."""
        return self._forward(tokens(), positions, ctx)


@dataclass(slots=True)
class _Captured:
    graph: Any  # Any: torch does not type it
    hidden: Tensor


@dataclass(slots=True)
class CudaGraphs:
    """Steps of one token per request are replayed from the second time that their room occurs.

    The first time runs as a call, which compiles kernels; the second is captured first. A shape
    that cannot be captured goes on as a call.
    """

    model: Forward
    draw: Callable[[Tensor], None]
    """From hidden states to tokens, in rooms that draw."""
    max_requests: int
    max_positions: int
    _seen: set[Room] = field(default_factory=set)
    _captured: dict[Room, _Captured] = field(default_factory=dict)
    _pool: Any = None  # Any: an opaque handle

    def room_for(self, num_requests: int, num_tokens: int, longest: int) -> Room | None:
        """Pad requests to the next captured number, and contexts to a power of two."""
        if num_tokens != num_requests or num_requests > _SIZES[-1]:
            return None
        positions = max(_LEAST_POSITIONS, 1 << (longest - 1).bit_length())
        requests = min(_SIZES[bisect_left(_SIZES, num_requests)], self.max_requests)
        return Room(requests, min(positions, self.max_positions))

    def forward(
        self, tokens: Tokens, positions: Tensor, ctx: ForwardContext, room: Room | None
    ) -> Tensor:
        """Replay the graph of ``room``, or call the model."""
        if room is None:
            return self.model(tokens(), positions, ctx)
        captured = self._captured.get(room)
        if captured is None and room in self._seen:
            captured = self._capture(tokens, positions, ctx, room)
        self._seen.add(room)
        if captured is None:
            return self._run(tokens, positions, ctx, room)
        captured.graph.replay()
        return captured.hidden

    def _run(self, tokens: Tokens, positions: Tensor, ctx: ForwardContext, room: Room) -> Tensor:
        hidden = self.model(tokens(), positions, ctx)
        if room.draws:
            self.draw(hidden)
        return hidden

    def _capture(
        self, tokens: Tokens, positions: Tensor, ctx: ForwardContext, room: Room
    ) -> _Captured | None:
        """Record the step without running it; None, and a warning, where that fails."""
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(stream):
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                try:
                    hidden = self._run(tokens, positions, ctx, room)
                finally:
                    graph.capture_end()
        except RuntimeError as error:
            logger.warning("no graph for %s: %s", room, error)
            self._seen.discard(room)
            return None
        torch.cuda.current_stream().wait_stream(stream)
        self._captured[room] = captured = _Captured(graph, hidden)
        return captured
