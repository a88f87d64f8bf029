"""Fields of a model's configuration: typed, bounded, and named in every error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from octavo.kit.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class Fields:
    """One object of a configuration. A field that is null counts as absent."""

    path: Path
    values: Mapping[str, object]
    prefix: str = ""
    """What stands before a name in the file: ``llama.`` in GGUF, ``rope_scaling.`` in JSON."""

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None

    def integer(self, name: str, low: int, high: int, *, default: int | None = None) -> int:
        """Return a whole number from ``low`` to ``high``; required unless there is a default."""
        value = self._value(name, default)
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not int or not low <= value <= high:
            raise self.error(name, f"a whole number from {low} to {high}")
        return value

    def number(self, name: str, low: float, high: float, *, default: float | None = None) -> float:
        """Return a finite number from ``low`` to ``high``."""
        value = self._value(name, default)
        if type(value) not in (int, float) or not isinstance(value, int | float):
            raise self.error(name, "a number")
        if not low <= value <= high or not math.isfinite(value):
            raise self.error(name, f"a number from {low} to {high}")
        return float(value)

    def numbers(self, name: str, count: int) -> tuple[float, ...]:
        """Return a list of ``count`` finite numbers above 0."""
        value = self._value(name, None)
        if not isinstance(value, list) or len(value) != count:
            raise self.error(name, f"a list of {count} numbers")
        items = Fields(self.path, {str(i): item for i, item in enumerate(value)}, f"{name}.")
        return tuple(items.number(str(i), 1e-30, 1e30) for i in range(count))

    def text(self, name: str, *, default: str | None = None) -> str:
        """Return a text that is not empty."""
        value = self._value(name, default)
        if not isinstance(value, str) or not value:
            raise self.error(name, "a text")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        value = self._value(name, default)
        if not isinstance(value, bool):
            raise self.error(name, "true or false")
        return value

    def texts(self, name: str) -> list[str]:
        """Return a list of texts; empty where the field is absent."""
        value = self._value(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(name, "a list of texts")
        return value

    def token_ids(self, name: str) -> tuple[int, ...]:
        """Return one token id, or a list of them, as a tuple; empty where the field is absent."""
        value = self._value(name, [])
        items = value if isinstance(value, list) else [value]
        if not all(type(item) is int and 0 <= item < 1 << 31 for item in items):
            raise self.error(name, "a token id or a list of token ids")
        return tuple(items)

    def part(self, name: str) -> Fields | None:
        """Return the object in a field, or None where it is absent."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(name, "an object")
        return Fields(self.path, value, f"{self.prefix}{name}.")

    def error(self, name: str, want: str) -> CheckpointError:
        value = self.values.get(name)
        found = "is missing" if value is None else f"is {value!r:.80}"
        return CheckpointError(
            f"{self.path}: {self.prefix}{name} {found}, expected {want}. "
            "Correct the file, or fetch it again."
        )

    def _value(self, name: str, default: object) -> object:
        value = self.values.get(name)
        return default if value is None else value
