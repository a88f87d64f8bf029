"""A clock that moves when it is told to."""

from __future__ import annotations


class FakeClock:
    """Stands in for ``time.monotonic``."""

    def __init__(self, start: float = 1000.0) -> None:
        self._now = start

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds
