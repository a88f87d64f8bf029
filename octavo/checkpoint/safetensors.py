"""Safetensors headers: names, types, shapes, offsets. Bounded: a file can only hurt itself.

Source: safetensors format description (8 bytes of length, a JSON header, contiguous data).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from octavo.checkpoint.json_files import as_object, parse_json, read_json
from octavo.kit.errors import CheckpointError

INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_MAX_HEADER_BYTES = 100 << 20
_DTYPE_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1,
    "I64": 8, "I32": 4, "I16": 2, "I8": 1,
    "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SafetensorsTensor:
    """Where one tensor is, and what it is made of."""

    file: Path
    dtype: str
    """As the file names it: F32, BF16, ..."""
    shape: tuple[int, ...]
    offset: int
    """From the start of ``file``. [bytes]"""
    nbytes: int

    @property
    def num_elements(self) -> int:
        return math.prod(self.shape)


def read_safetensors(path: Path | str) -> dict[str, SafetensorsTensor]:
    """Locate every tensor of a file, or of a folder with one file or an index of several.

    Raises:
        CheckpointError: a file is missing, cut off, foreign or inconsistent.
    """
    path = Path(path)
    if not path.is_dir():
        return _read_file(path)
    if (path / INDEX).is_file():
        return _read_indexed(path)
    return _read_file(_only_file(path))


def indexed_files(folder: Path) -> list[str]:
    """Names of the files that the index of ``folder`` lists, sorted."""
    return sorted(set(_weight_map(folder).values()))


def _only_file(folder: Path) -> Path:
    if (folder / _SINGLE).is_file():
        return folder / _SINGLE
    found = sorted(folder.glob("*.safetensors"))
    if len(found) == 1:
        return found[0]
    names = ", ".join(file.name for file in found[:5]) or "none"
    raise CheckpointError(
        f"{folder}: holds no {_SINGLE}, no {INDEX} and not exactly one .safetensors file "
        f"(found: {names}). Give a folder with the weights, or add the index."
    )


def _weight_map(folder: Path) -> dict[str, str]:
    path = folder / INDEX
    mapping = as_object(path, "weight_map", read_json(path).get("weight_map"))
    for name, file in mapping.items():
        if not isinstance(file, str) or not file or Path(file).name != file:
            raise CheckpointError(
                f"{path}: puts tensor {name!r} into {file!r}, which is no file name in this "
                "folder. Fetch the index again."
            )
    return {name: str(file) for name, file in mapping.items()}


def _read_indexed(folder: Path) -> dict[str, SafetensorsTensor]:
    mapping = _weight_map(folder)
    tensors: dict[str, SafetensorsTensor] = {}
    for file in indexed_files(folder):
        for name, tensor in _read_file(folder / file).items():
            if name in tensors:
                raise CheckpointError(
                    f"{folder}: tensor {name!r} is in {tensors[name].file.name} and in {file}. "
                    "Remove the file that does not belong to this model."
                )
            tensors[name] = tensor
    for name, file in mapping.items():
        if name not in tensors or tensors[name].file.name != file:
            raise CheckpointError(
                f"{folder / file}: has no tensor {name!r}, which {INDEX} puts there. "
                "Fetch the file again."
            )
    return tensors


def _read_file(path: Path) -> dict[str, SafetensorsTensor]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, _MAX_HEADER_BYTES):
                raise _broken(path, f"claims a header of {length} bytes in a file of {size}")
            header = parse_json(path, file.read(length))
    except OSError as error:
        raise CheckpointError(
            f"{path}: {error.strerror or error}. Give the path of readable .safetensors files."
        ) from error
    start = 8 + length
    tensors = {
        name: _tensor(path, name, entry, start)
        for name, entry in header.items()
        if name != "__metadata__"
    }
    _check_layout(path, tensors.items(), start, size)
    return tensors


def _tensor(path: Path, name: str, entry: object, start: int) -> SafetensorsTensor:
    fields = as_object(path, name, entry)
    dtype, shape, place = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _DTYPE_BYTES:
        raise CheckpointError(
            f"{path}: tensor {name!r} has dtype {dtype!r}; octavo reads "
            f"{', '.join(_DTYPE_BYTES)}. Convert the weights to one of these."
        )
    sizes, offsets = _counts(shape), _counts(place)
    if sizes is None or offsets is None or len(offsets) != 2:
        raise _broken(path, f"gives tensor {name!r} shape {shape!r:.80} at {place!r:.80}")
    begin, end = offsets
    tensor = SafetensorsTensor(path, dtype, sizes, start + begin, end - begin)
    if tensor.num_elements * _DTYPE_BYTES[dtype] != tensor.nbytes:
        raise _broken(
            path,
            f"gives tensor {name!r} {end - begin} bytes, but {dtype} of shape {list(sizes)} "
            f"takes {tensor.num_elements * _DTYPE_BYTES[dtype]}",
        )
    return tensor


def _counts(value: object) -> tuple[int, ...] | None:
    """Return a JSON list of sizes; None when it is none."""
    if not isinstance(value, list) or len(value) > 16:
        return None
    if not all(type(item) is int and 0 <= item < 1 << 63 for item in value):
        return None
    return tuple(value)


def _check_layout(
    path: Path, tensors: Iterable[tuple[str, SafetensorsTensor]], start: int, size: int
) -> None:
    """Refuse overlaps, holes and anything outside the file."""
    end = start
    for name, tensor in sorted(tensors, key=lambda item: (item[1].offset, item[1].nbytes)):
        if tensor.offset != end:
            raise _broken(path, f"has tensor {name!r} at byte {tensor.offset}, expected at {end}")
        end += tensor.nbytes
    if end != size:
        raise _broken(path, f"has {size} bytes, but its header describes {end}")


def _broken(path: Path, what: str) -> CheckpointError:
    return CheckpointError(
        f"{path}: {what}. The file is cut off, damaged or no safetensors file; fetch it again."
    )
