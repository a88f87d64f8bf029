"""Times of one answer, as a person sees them."""

from __future__ import annotations

import time
from collections.abc import Callable

from octavo.entrypoints.cli.talk import Piece


class Stopwatch:
    """Starts when it is made."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self._first: float | None = None
        self._last = self._started
        self._num_pieces = 0
        self._num_tokens = 0
        self._num_prompt_tokens = 0
        self._reason: str | None = None

    def saw(self, piece: Piece) -> None:
        """Take note of a piece that has just come."""
        now = self._clock()
        if piece.text or piece.num_tokens:
            self._first = self._first or now
        if piece.text:
            self._num_pieces += 1
            self._last = now
        self._num_tokens = piece.num_tokens or self._num_tokens
        self._num_prompt_tokens = piece.num_prompt_tokens or self._num_prompt_tokens
        self._reason = piece.finish_reason or self._reason

    def summary(self) -> str:
        """One line: tokens, rate, time to the first token, how it ended."""
        num_tokens = self._num_tokens or self._num_pieces
        parts = [f"{num_tokens} tokens"]
        if self._first is not None and self._last > self._first and num_tokens > 1:
            parts.append(f"{(num_tokens - 1) / (self._last - self._first):.1f} tokens/s")
        if self._first is not None:
            parts.append(f"first after {self._first - self._started:.2f} s")
        if self._num_prompt_tokens:
            parts.append(f"prompt {self._num_prompt_tokens} tokens")
        if self._reason != "stop":
            parts.append({"length": "cut at the limit", None: "stopped"}.get(self._reason, "ended"))
        return ", ".join(parts)
