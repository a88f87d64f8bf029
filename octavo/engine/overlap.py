"""Same step with two batches in flight: the device computes one while the next is planned."""

from __future__ import annotations

from collections import deque

from octavo.contracts.output import EngineOutputs
from octavo.engine.core import EngineCore
from octavo.engine.executor.base import Pending, WorkerFailed
from octavo.engine.request import InFlight

_DEPTH = 2


class OverlappedCore:
    """Keeps up to two batches in flight; makes the same four calls as ``EngineCore.step``.

    A batch is planned before the tokens of the one before it are known: a request's next token
    is a placeholder in its counts, and its value stays in the device's row. So the plan names
    only what is known ahead: nobody who ends by length in the batch in flight, but those who
    turn out to have ended otherwise; what is computed for them is dropped in their last
    ``update``.
    """

    def __init__(self, core: EngineCore) -> None:
        self._core = core
        self._drawn: deque[tuple[InFlight, Pending]] = deque()

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        return self._core.has_work

    def step(self) -> EngineOutputs | None:
        """Send a batch if there is one, then finish the oldest when the device has enough."""
        flight = self._core.begin()
        if flight is not None:
            self._drawn.append((flight, self._core.draw(flight)))
        if self._drawn and (flight is None or len(self._drawn) == _DEPTH):
            return self._core.finish(*self._drawn.popleft())
        return self._core.updater.flush()

    def recover(self, failure: WorkerFailed) -> None:
        """Drop the batches in flight, which ``EngineCore.recover`` is about to run again.

        Raises:
            WorkerFailed: the worker does not answer any more.
        """
        for _, pending in self._drawn:
            _drain(pending)
        self._drawn.clear()
        self._core.recover(failure)


def _drain(pending: Pending) -> None:
    """Wait for a batch whose tokens nobody wants; that it fails, too, is no news."""
    try:
        pending.result()
    except WorkerFailed as failure:
        if failure.is_fatal:
            raise
