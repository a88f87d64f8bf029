"""The sandbox that chat templates run in: plain data, bounded time, bounded output.

A template is somebody else's program. Loops are ended by a clock. What one expression computes
inside the interpreter cannot be, so no value is made that is too large to work on at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import wraps
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

MAX_CHARS = 1 << 24
"""Characters of a text, and of all texts in a value."""
MAX_ITEMS = 1 << 18
"""Items of a value, counted as often as they would be shown."""
MAX_NUMBER = 100_000
"""Integers that filters and methods take, such as widths."""
MAX_BITS = 4096
"""Size of an integer."""

Value = Any  # Any: whatever a template computes with


class OutOfBounds(jinja2.TemplateError):
    """A template makes a value, or writes a text, that is too large."""


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja as chat templates expect it, without what they do not use."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        self.code_generator_class = _CheckedCode
        self.filters = {
            name: _checked(name, self.filters[name])
            for name in self.filters
            if name not in _MISSING_FILTERS
        }
        self.filters["tojson"] = _to_json
        self.globals = {
            "range": self.globals["range"],
            "dict": dict,
            "namespace": _PlainNamespace,
            "raise_exception": _raise_exception,
            "strftime_now": _strftime_now,
        }
        self.concat = join_bounded  # type: ignore[method-assign]  # set blocks and macros too

    def bounded(self, value: Value) -> Value:
        """Return ``value``; the compiled template passes every list, tuple and dict by here."""
        return check_size(value)

    def concatenated(self, values: tuple[Value, ...]) -> str:
        """The operator ``~``."""
        return join_bounded(str(check_size(value)) for value in values)

    def call_binop(
        self, context: jinja2.runtime.Context, operator: str, left: Value, right: Value
    ) -> Value:
        if not _can_compute(operator, left, right):
            raise OutOfBounds(f"{operator!r} would make a value that is too large")
        return check_size(super().call_binop(context, operator, left, right))

    def is_safe_attribute(self, obj: Value, attr: str, value: Value) -> bool:
        if isinstance(obj, str | bytes) and attr in _MISSING_METHODS:
            return False
        return super().is_safe_attribute(obj, attr, value)

    def call(self, context: Value, obj: Value, /, *args: Value, **kwargs: Value) -> Value:
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str):
            _check_growth(obj.__name__, owner, [*args, *kwargs.values()])
        return check_size(super().call(context, obj, *args, **kwargs))


def check_size(value: Value) -> Value:
    """Return ``value`` unless it is too large, all that it holds included.

    Raises:
        OutOfBounds: it is.
    """
    waiting, num_items, num_chars = [value], 0, 0
    while waiting:
        item = waiting.pop()
        if isinstance(item, str | bytes):
            num_chars += len(item)
        elif isinstance(item, dict):
            waiting += item.keys()
            waiting += item.values()
        elif isinstance(item, list | tuple | set | frozenset):
            waiting += item
        num_items += 1
        if num_chars > MAX_CHARS or num_items + len(waiting) > MAX_ITEMS:
            raise OutOfBounds(f"a value has more than {MAX_CHARS} characters or {MAX_ITEMS} items")
    return value


def join_bounded(pieces: Iterable[str]) -> str:
    """Join, unless the whole is too long.

    Raises:
        OutOfBounds: it is.
    """
    parts, num_chars = list[str](), 0
    for piece in pieces:
        num_chars += len(piece)
        if num_chars > MAX_CHARS:
            raise OutOfBounds(f"it writes more than {MAX_CHARS} characters")
        parts.append(piece)
    return "".join(parts)


_MISSING_FILTERS = frozenset(
    {"center", "filesizeformat", "format", "pprint", "random", "striptags", "urlize", "wordwrap"}
    | {"xmlattr"}
)
_MISSING_METHODS = frozenset(
    {"center", "expandtabs", "format", "format_map", "ljust", "rjust", "translate", "zfill"}
)


class _CheckedCode(CodeGenerator):
    """Compiles a template so that values it makes are checked while they are small."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 - jinja's name
        self.write("environment.concatenated((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_List(self, node: nodes.List, frame: Frame) -> None:  # noqa: N802 - jinja's name
        self.write("environment.bounded(")
        super().visit_List(node, frame)
        self.write(")")

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:  # noqa: N802 - jinja's name
        self.write("environment.bounded(")
        super().visit_Dict(node, frame)
        self.write(")")

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:  # noqa: N802 - jinja's name
        if node.ctx != "load":
            super().visit_Tuple(node, frame)
            return
        self.write("environment.bounded(")
        super().visit_Tuple(node, frame)
        self.write(")")


class _Generation(Extension):
    """``{% generation %}`` marks what an assistant wrote; it does not change the text."""

    tags = {"generation"}  # noqa: RUF012 - the base class declares it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _PlainNamespace(Namespace):
    """A namespace that keeps no private names and does not show what it holds."""

    def __init__(self, *args: Value, **kwargs: Value) -> None:
        for name in dict(*args, **kwargs):
            _check_name(name)
        super().__init__(*args, **kwargs)

    def __setitem__(self, name: str, value: Value) -> None:
        _check_name(name)
        super().__setitem__(name, value)

    def __repr__(self) -> str:
        return "<namespace>"


def _check_name(name: str) -> None:
    if name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace has no name {name!r}")


def _checked(name: str, filter_: Callable[..., Value]) -> Callable[..., Value]:
    """The filter, with its arguments and its value checked."""

    @wraps(filter_)  # keeps the marks by which jinja knows what to pass
    def checked(*args: Value, **kwargs: Value) -> Value:
        given = [a for a in (*args, *kwargs.values()) if isinstance(a, int | str | list | tuple)]
        text = given.pop(0) if given and not isinstance(given[0], int) else ""
        _check_growth(name, text, given)
        return check_size(filter_(*args, **kwargs))

    return checked


def _check_growth(name: str, text: Value, args: Iterable[Value]) -> None:
    """Refuse calls that can make much more than they are given."""
    longest = 0
    for item in args:
        if isinstance(item, int) and not -MAX_NUMBER <= item <= MAX_NUMBER:
            raise OutOfBounds(f"{name} takes integers up to {MAX_NUMBER}, not {item:.3e}")
        if isinstance(item, str | list | tuple):
            longest = max(longest, len(item))
        if isinstance(item, int) and name == "indent":
            longest = max(longest, item)
    if name in ("replace", "join", "indent") and (len(text) + 1) * longest > MAX_CHARS * 16:
        raise OutOfBounds(f"{name} would make a text that is too long")


def _can_compute(operator: str, left: Value, right: Value) -> bool:
    match operator, left, right:
        case "*", (str() | list() | tuple()), int():
            return len(left) * right <= MAX_ITEMS
        case "*", int(), (str() | list() | tuple()):
            return len(right) * left <= MAX_ITEMS
        case (("*" | "**"), int(), int()):
            return left.bit_length() * (right if operator == "**" else 1) <= MAX_BITS
        case "%", (str() | bytes()), _:
            return False
        case _:
            return True


def _to_json(
    value: Value,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - the signature that templates call
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002 - as above
) -> str:
    return json.dumps(
        check_size(value),
        ensure_ascii=ensure_ascii,
        indent=None if indent is None else min(int(indent), 16),
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(str(message))


def _strftime_now(form: str) -> str:
    return datetime.now().astimezone().strftime(form[:1000])
