"""Two samples of every message type, made from its fields: everything set, and the least."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import pkgutil
import types
import typing
from typing import Any

import msgspec
import numpy as np

import octavo.contracts
from octavo.contracts.codec import FloatArray, IntArray, Message

CHOSEN = {"block_size": 16, "policy": "fcfs", "max_num_batched_tokens": 64, "max_num_seqs": 8}
"""Values of fields that a configuration checks."""


def message_types() -> list[type[Message]]:
    """Every message type that ``octavo.contracts`` defines, by name."""
    for module in pkgutil.iter_modules(octavo.contracts.__path__):
        importlib.import_module(f"octavo.contracts.{module.name}")
    found = {kind for kind in _descendants(Message) if kind.__module__.startswith("octavo.")}
    return sorted(found, key=lambda kind: kind.__name__)


def full(kind: type[Any]) -> Any:
    """Return a ``kind`` with every field set, none to its default."""
    hints = typing.get_type_hints(kind)
    return kind(**{name: _value(hints[name], name) for name in _names(kind)})


def least(kind: type[Any]) -> Any:
    """Return a ``kind`` with only those fields that must be set."""
    hints = typing.get_type_hints(kind)
    required = [field.name for field in msgspec.structs.fields(kind) if field.required]
    return kind(**{name: _value(hints[name], name) for name in required})


def same(left: object, right: object) -> bool:
    """Compare by value, arrays and what is inside included."""
    if isinstance(left, np.ndarray):
        return isinstance(right, np.ndarray) and np.array_equal(left, right)
    if type(left) is not type(right):
        return False
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, msgspec.Struct) or dataclasses.is_dataclass(left):
        return all(same(getattr(left, name), getattr(right, name)) for name in _names(type(left)))
    return left == right


def _descendants(kind: type[Any]) -> set[type[Any]]:
    children = kind.__subclasses__()
    return {*children, *(below for child in children for below in _descendants(child))}


def _names(kind: type[Any]) -> list[str]:
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return list(kind.__struct_fields__)


def _value(hint: Any, name: str) -> Any:
    if name in CHOSEN:
        return CHOSEN[name]
    if hint == IntArray:
        return np.array([[1, -2, 2**31 - 1]], dtype=np.int32)
    if hint == FloatArray:
        return np.array([0.5, -1.25], dtype=np.float32)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _value(next(choice for choice in arguments if choice is not type(None)), name)
    if origin is list:
        return [_value(arguments[0], name), _value(arguments[0], name)]
    if origin is tuple:
        return tuple(_value(choice, name) for choice in arguments if choice is not Ellipsis)
    if origin is dict:
        return {_value(arguments[0], name): _value(arguments[1], name)}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return list(hint)[-1]
    if isinstance(hint, type) and (issubclass(hint, Message) or dataclasses.is_dataclass(hint)):
        return full(hint)
    return {int: 7, float: 0.75, str: f"the {name}", bool: True, bytes: b"\x00\xff"}[hint]
