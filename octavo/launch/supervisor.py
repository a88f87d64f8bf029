"""The root process: starts API process and engine, waits for news, ends both one way.

It uses the standard library and the contracts alone, and nothing of a request is in it.
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from select import select

from octavo.contracts.launch import ChildFailed, Drain, Draining, Reached, Serving
from octavo.kit.errors import EngineDied, OctavoError, OperatorError
from octavo.launch.processes import Process

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_GRACE_AFTER_FAILURE_S = 1.0
"""Time for the API process to tell its clients that the engine has ended."""
_END_S = 5.0
"""Time to leave once there is nothing left to do."""


class Supervisor:
    """Waits for news of both children and for signals.

    Invariant: once ``_deadline`` is set the server is going down. ``_running`` holds the children
    that are waited for; the others, and those that are late, are killed.
    """

    def __init__(
        self,
        api: Process,
        engine: Process,
        *,
        grace_s: float,
        on_drain: Callable[[], None],
        on_news: Callable[[Reached | Serving | Draining], None],
    ) -> None:
        self._api = api
        self._engine = engine
        self._running = {api.name: api, engine.name: engine}
        self._grace_s = grace_s
        self._on_drain = on_drain
        self._on_news = on_news
        self._is_ready = False
        self._deadline: float | None = None
        self._cause: OctavoError | None = None
        self._last_signal = 0

    def run(self, signals: socket.socket) -> int:
        """Return the exit code once both children have ended.

        ``signals`` is what ``arriving_signals`` gives; take it before the children are started.

        Raises:
            OperatorError: a child could not start, and the operator can mend it.
            EngineDied: a child ended for another reason.
        """
        try:
            self._wait(signals)
        finally:
            for process in (self._api, self._engine):
                process.stop()
        if self._cause is not None:
            raise self._cause
        return 128 + self._last_signal if self._last_signal else 0

    def _wait(self, signals: socket.socket) -> None:
        while self._running and not self._last_signal:
            left = None if self._deadline is None else self._deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            sources: list[Process | socket.socket] = [signals, *self._running.values()]
            for source in select(sources, [], [], left)[0]:
                if not isinstance(source, Process):
                    self._obey(signals.recv(1)[0])
                elif source.name in self._running:
                    self._read(source)

    def _read(self, process: Process) -> None:
        match process.news():
            case Reached() as reached:
                self._on_news(reached)
            case Serving() as serving:
                self._is_ready = True
                self._on_news(serving)
            case Draining() as draining:
                if self._cause is None:
                    self._on_news(draining)
            case ChildFailed() as failed:
                kind = OperatorError if failed.operator else EngineDied
                self._fail(kind(failed.error))
            case None:
                del self._running[process.name]
                self._ended(process)

    def _ended(self, process: Process) -> None:
        if self._deadline is None:
            self._fail(EngineDied(f"the {process.name} process {process.how_it_ended()}"))
            if process is self._api:
                self._running.clear()  # nobody else talks to the engine
        elif process is self._api:
            self._deadline = time.monotonic() + _END_S  # it has told the engine to end

    def _fail(self, cause: OctavoError) -> None:
        if self._cause is None:
            self._cause = cause
            self._drain(_GRACE_AFTER_FAILURE_S)

    def _obey(self, signal_number: int) -> None:
        if self._deadline is not None:
            self._last_signal = signal_number
            return
        self._drain(self._grace_s)

    def _drain(self, grace_s: float) -> None:
        self._on_drain()
        self._api.order(Drain(grace_s))
        self._deadline = time.monotonic() + grace_s + _END_S
        if not self._is_ready:
            self._running.clear()  # no request was taken, so there is nothing to wait for


@contextmanager
def arriving_signals() -> Iterator[socket.socket]:
    """A socket from which the numbers of arriving signals are read."""
    reader, writer = socket.socketpair()
    with reader, writer:
        writer.setblocking(False)  # noqa: FBT003 (the socket method has no keyword)
        before = {number: signal.signal(number, _note) for number in _SIGNALS}
        wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        try:
            yield reader
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)


def _note(_number: int, _frame: object) -> None:
    """Only the wake-up descriptor counts."""
