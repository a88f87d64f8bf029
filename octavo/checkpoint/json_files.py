"""JSON files of a model folder, read with bounds; what is wrong names the file and the field."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from octavo.kit.errors import CheckpointError

JsonObject = dict[str, object]

_MAX_FILE_BYTES = 128 << 20


def read_json(path: Path) -> JsonObject:
    """Read a file that holds one JSON object.

    Raises:
        CheckpointError: the file is missing, too large or holds something else.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CheckpointError(
            f"{path}: {error.strerror or error}. Fetch the model's files again."
        ) from error
    if len(data) > _MAX_FILE_BYTES:
        raise CheckpointError(f"{path}: is larger than {_MAX_FILE_BYTES} bytes. Check the path.")
    return parse_json(path, data)


def parse_json(path: Path, data: bytes) -> JsonObject:
    """Parse one JSON object that came from ``path``; a name that occurs twice is refused.

    Raises:
        CheckpointError: the bytes are something else.
    """
    try:
        value = json.loads(data, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        reason = "too deeply nested" if isinstance(error, RecursionError) else str(error)
        raise CheckpointError(
            f"{path}: holds no readable JSON ({reason:.200}). Fetch the file again."
        ) from error
    return as_object(path, "top level", value)


def as_object(path: Path, field: str, value: object) -> JsonObject:
    """Return ``value`` if it is a JSON object.

    Raises:
        CheckpointError: it is something else.
    """
    if not isinstance(value, dict):
        raise CheckpointError(
            f"{path}: {field!r:.200} is {value!r:.80}, expected a JSON object. "
            "Fetch the file again."
        )
    return value


def _unique(pairs: list[tuple[str, object]]) -> JsonObject:
    value = dict(pairs)
    if len(value) != len(pairs):
        twice, count = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"{twice!r} occurs {count} times")
    return value
