"""End Python code that runs for too long, in the thread that runs it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class OutOfTime(BaseException):
    """Raised inside code that runs for too long; ``except Exception`` does not catch it."""


class _Watch:
    """Interrupts one thread, unless it is told first that the thread has finished."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._done = False

    def interrupt(self) -> None:
        with self._lock:
            if not self._done:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(OutOfTime)
                )

    def stop(self) -> None:
        with self._lock:
            self._done = True


@contextmanager
def time_limit(limit_s: float) -> Iterator[None]:
    """Raise ``OutOfTime`` in this thread if the body runs longer; loops end at once."""
    watch = _Watch()
    timer = threading.Timer(limit_s, watch.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        watch.stop()
        timer.cancel()
