"""Logger setup: process, rank and request id on every line."""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar
from typing import TextIO

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The request that the current task serves; its log lines carry it."""

_LEVELS = {"debug", "info", "warning", "error"}


class _Formatter(logging.Formatter):
    def __init__(self, process: str) -> None:
        super().__init__(
            f"%(asctime)s %(levelname).1s {process} %(name)s%(request)s: %(message)s",
            datefmt="%H:%M:%S",
        )

    def format(self, record: logging.LogRecord) -> str:
        current = request_id.get()
        record.request = f" [{current}]" if current else ""
        record.name = record.name.removeprefix("octavo.")
        return super().format(record)


def set_up_logging(process: str, level: str = "info", stream: TextIO | None = None) -> None:
    """Send octavo's log of this process to ``stream`` (default stderr), each line marked.

    ``process`` is the mark, such as ``api``, ``engine`` or ``worker.0``.
    """
    if level not in _LEVELS:
        raise ValueError(f"log level {level!r}: must be one of {sorted(_LEVELS)}")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Formatter(process))
    root = logging.getLogger("octavo")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
