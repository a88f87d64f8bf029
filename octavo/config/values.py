"""Texts and values to the type of an option, the same for flags, YAML files and keywords."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import Field
from typing import Any, TypeVar

from octavo.kit.errors import ConfigError

A = TypeVar("A")

_SUFFIXES = {
    "": 1,
    **{letter: 1000 ** (place + 1) for place, letter in enumerate("kmgt")},
    **{letter: 1024 ** (place + 1) for place, letter in enumerate("KMGT")},
    **{f"{letter}iB": 1024 ** (place + 1) for place, letter in enumerate("KMGT")},
    **{f"{letter}B": 1000 ** (place + 1) for place, letter in enumerate("KMGT")},
}
_WITH_SUFFIX = ("_bytes", "_len", "_tokens")


def flag_of(name: str) -> str:
    """The flag of the field ``name``."""
    return "--" + name.replace("_", "-")


def kind_of(field: Field[Any]) -> str:
    """The type of a field, as it is written, without None."""
    return str(field.type).removesuffix(" | None")


def read_count(option: str, text: str) -> int:
    """Read a whole number; k, M, G, T stand for powers of 1000 (lower) or 1024 (upper case).

    Raises:
        ConfigError: the text is something else.
    """
    number = text.rstrip("kmgtKMGTiB")
    factor = _SUFFIXES.get(text[len(number) :], 1)
    try:
        value = float(number) * factor if factor > 1 else int(text)
        count = int(value)
    except (ValueError, OverflowError):
        value, count = 0, -1
    if value != count:
        raise ConfigError(
            option,
            text,
            want="must be a whole number, such as 4096, 8k (8000), 4K (4096) or 2G",
            fix=f"Use {flag_of(option)} 4096.",
        )
    return count


def reader_of(field: Field[Any]) -> Callable[[str], object]:
    """How the text of a flag becomes the value of its field."""
    name = field.name

    def whole(text: str) -> int:
        if name.endswith(_WITH_SUFFIX):
            return read_count(name, text)
        return _number(name, text, int, "a whole number")

    def real(text: str) -> float:
        return _number(name, text, float, "a number")

    readers: dict[str, Callable[[str], object]] = {
        "int": whole,
        "float": real,
        "str": str,
        "tuple[str, ...]": str,
        "tuple[int, ...]": whole,
    }
    return readers[kind_of(field)]


def _number(name: str, text: str, kind: Callable[[str], A], what: str) -> A:
    try:
        return kind(text)
    except ValueError:
        raise ConfigError(
            name, text, want=f"must be {what}", fix=f"Change the value of {flag_of(name)}."
        ) from None


def from_yaml(field: Field[Any], value: object) -> object:
    """Give a YAML value the type of its field, by the same reading as on the command line."""
    kind = kind_of(field)
    if kind == "bool":
        if not isinstance(value, bool):
            raise ConfigError(
                field.name, value, want="must be true or false", fix="Change it in the file."
            )
        return value
    if kind.startswith("tuple"):
        items = value if isinstance(value, list) else [value]
        return tuple(reader_of(field)(_scalar(field.name, item)) for item in items)
    return reader_of(field)(_scalar(field.name, value))


def _scalar(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ConfigError(
            name, value, want="must be a number or a text", fix="Change it in the file."
        )
    return str(value)


def from_keyword(field: Field[Any], value: object) -> object:
    """Give a value from Python the type of its field; a text is read as on the command line.

    Raises:
        ConfigError: it is of another type, or a text that is not understood.
    """
    name, kind = field.name, kind_of(field)
    if kind == "bool":
        if isinstance(value, bool):
            return value
        raise _wrong_keyword(name, value, "must be True or False")
    if kind.startswith("tuple"):
        is_many = isinstance(value, list | tuple)
        items: list[object] = list(value) if is_many else [value]  # type: ignore[call-overload]
        return tuple(_item_from_keyword(field, item) for item in items)
    return _item_from_keyword(field, value)


def _item_from_keyword(field: Field[Any], value: object) -> object:
    name, kind = field.name, kind_of(field)
    if "str" in kind:
        if isinstance(value, str | os.PathLike):
            return os.fspath(value)
        raise _wrong_keyword(name, value, "must be a text")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _wrong_keyword(name, value, "must be a number")
    try:
        return reader_of(field)(str(value))
    except ConfigError as error:
        raise _wrong_keyword(name, value, error.want) from None


def _wrong_keyword(name: str, value: object, want: str) -> ConfigError:
    return ConfigError(name, value, want=want, fix=f"Change {name}.")
