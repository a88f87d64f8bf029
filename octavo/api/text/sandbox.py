"""The sandbox that chat templates run in: plain data, bounded time, bounded output."""

from __future__ import annotations

import ctypes
import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_RENDERED_CHARS = 1 << 24


class OutOfBounds(jinja2.TemplateError):
    """A template makes a value, or writes a text, that is too large."""


class OutOfTime(BaseException):
    """Raised inside a template that runs for too long; templates cannot catch it."""


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja as chat templates expect it, with bounds on what one expression can make."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        self.filters["tojson"] = _to_json
        for name in ("center", "format", "xmlattr", "urlize", "pprint", "random"):
            del self.filters[name]
        self.globals = {
            "range": self.globals["range"],
            "namespace": self.globals["namespace"],
            "dict": dict,
            "raise_exception": _raise_exception,
            "strftime_now": _strftime_now,
        }
        self.concat = join_bounded  # type: ignore[method-assign]  # bounded, in set blocks and macros too

    def call_binop(
        self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any
    ) -> Any:  # Any: whatever the template computes with
        if operator in ("*", "**", "%") and not _is_small(operator, left, right):
            raise OutOfBounds(f"'{operator}' would make a value of more than {MAX_RENDERED_CHARS}")
        return _bounded(super().call_binop(context, operator, left, right))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str) and attr in _PADDING_METHODS:
            return False
        return super().is_safe_attribute(obj, attr, value)

    def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:  # Any: as above
        return _bounded(super().call(context, obj, *args, **kwargs))


_PADDING_METHODS = frozenset(
    {"center", "ljust", "rjust", "zfill", "expandtabs", "format", "format_map", "translate"}
)


class _Generation(Extension):
    """``{% generation %}`` marks what an assistant wrote; it does not change the text."""

    tags = {"generation"}  # noqa: RUF012 - the base class declares it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def join_bounded(pieces: Iterable[str]) -> str:
    parts, size = list[str](), 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_RENDERED_CHARS:
            raise OutOfBounds(f"it wrote more than {MAX_RENDERED_CHARS} characters")
        parts.append(piece)
    return "".join(parts)


def _bounded(value: Any) -> Any:  # Any: whatever the template computes with
    if isinstance(value, str | bytes | list | tuple) and len(value) > MAX_RENDERED_CHARS:
        raise OutOfBounds(f"a value has more than {MAX_RENDERED_CHARS} characters or items")
    return value


def _is_small(operator: str, left: Any, right: Any) -> bool:  # Any: as above
    match operator, left, right:
        case "*", (str() | list() | tuple()), int():
            return len(left) * right <= MAX_RENDERED_CHARS
        case "*", int(), (str() | list() | tuple()):
            return len(right) * left <= MAX_RENDERED_CHARS
        case (("*" | "**"), int(), int()):
            bits = left.bit_length() * (right if operator == "**" else 1)
            return bits <= 4096
        case "%", str(), _:
            return False
        case _:
            return True


def _to_json(
    value: Any,  # Any: JSON of the request
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - the signature that templates call
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002 - as above
) -> str:
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii,
        indent=None if indent is None else min(int(indent), 16),
        separators=separators,
        sort_keys=sort_keys,
    )
    return join_bounded(encoder.iterencode(value))


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(str(message))


def _strftime_now(form: str) -> str:
    return datetime.now().astimezone().strftime(form[:1000])


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
