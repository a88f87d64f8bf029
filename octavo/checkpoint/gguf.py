"""GGUF: metadata, tokenizer, template and tensor table. Bounded: a file can only hurt itself.

Every count, length and offset is compared with what is left of the file before it is used.

Source: GGUF specification, versions 2 and 3; block sizes of the ggml types.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

from octavo.checkpoint.ggml_types import GGML_TYPES, UNREADABLE_GGML_TYPES, GGMLType
from octavo.kit.errors import CheckpointError

MetadataValue = str | int | float | bool | list["MetadataValue"]

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_MAX_ALIGNMENT = 1 << 20
_MAX_DIMENSIONS = 4
_MAX_NESTING = 4
_MAX_NAME_BYTES = 1 << 16
_MAX_ARRAY = 1 << 24

_SCALARS = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: struct.Struct("<I"),
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    7: struct.Struct("<?"),
    10: struct.Struct("<Q"),
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
_STRING, _ARRAY = 8, 9
_U32, _U64, _ARRAY_HEAD = struct.Struct("<I"), struct.Struct("<Q"), struct.Struct("<IQ")
_HEAD = struct.Struct("<4sIQQ")
_DIMENSIONS = [struct.Struct(f"<{count}Q") for count in range(_MAX_DIMENSIONS + 1)]
_PLACE = struct.Struct("<IQ")


@dataclass(frozen=True, slots=True)
class GGUFTensor:
    """Where one tensor is, and what it is made of."""

    name: str
    shape: tuple[int, ...]
    """Rows first, as torch counts; the file counts the other way round."""
    type: GGMLType
    offset: int
    """From the start of the file. [bytes]"""
    nbytes: int

    @property
    def num_elements(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count


@dataclass(frozen=True, slots=True)
class GGUFFile:
    """Everything a GGUF file says before its tensors."""

    path: Path
    version: int
    alignment: int
    metadata: dict[str, MetadataValue]
    tensors: dict[str, GGUFTensor]


def read_gguf(path: Path | str) -> GGUFFile:
    """Read the header of a GGUF file; tensors are located, not read.

    Raises:
        CheckpointError: the file is missing, cut off, foreign or inconsistent, or holds a type
            that octavo does not read.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size < _HEAD.size:
                raise _broken(path, f"has {size} bytes, fewer than a GGUF header ({_HEAD.size})")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
                return _Reader(path, buffer, size).read()
    except OSError as error:
        raise CheckpointError(
            f"{path}: {error.strerror or error}. Give the path of a readable .gguf file."
        ) from error


def _broken(path: Path, what: str) -> CheckpointError:
    return CheckpointError(
        f"{path}: {what}. The file is cut off, damaged or no GGUF file; fetch it again."
    )


class _Reader:
    """A cursor over one file."""

    def __init__(self, path: Path, buffer: mmap.mmap, size: int) -> None:
        self._path = path
        self._buffer = buffer
        self._size = size
        self._at = 0

    def read(self) -> GGUFFile:
        version, num_tensors, num_entries = self._head()
        self._bound(num_entries, 13, "metadata entries")
        metadata: dict[str, MetadataValue] = {}
        for _ in range(num_entries):
            key = self._name("metadata key")
            if key in metadata:
                raise self._error(f"has metadata key {key!r} twice")
            metadata[key] = self._value(self._unpack(_U32), key, depth=0)
        self._refuse_parts(metadata)
        alignment = self._alignment(metadata)
        self._bound(num_tensors, 24, "tensors")
        entries = [self._tensor_entry() for _ in range(num_tensors)]
        start = -(-self._at // alignment) * alignment
        tensors: dict[str, GGUFTensor] = {}
        for name, shape, kind, offset in entries:
            if name in tensors:
                raise self._error(f"has tensor {name!r} twice")
            tensors[name] = self._tensor(name, shape, kind, (start, offset, alignment))
        self._refuse_overlap(tensors)
        return GGUFFile(self._path, version, alignment, metadata, tensors)

    def _head(self) -> tuple[int, int, int]:
        magic, version, num_tensors, num_entries = _HEAD.unpack_from(self._buffer, 0)
        if magic != _MAGIC:
            raise self._error(f"starts with {magic!r}, not with {_MAGIC!r}")
        if version not in _VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
            kind = "a big-endian file of version" if swapped in _VERSIONS else "of version"
            raise CheckpointError(
                f"{self._path}: is {kind} {min(version, swapped)}; octavo reads little-endian "
                "GGUF versions 2 and 3. Convert it with a current converter."
            )
        self._at = _HEAD.size
        return version, num_tensors, num_entries

    def _error(self, what: str) -> CheckpointError:
        return _broken(self._path, what)

    def _bound(self, count: int, least_bytes: int, what: str) -> None:
        """Refuse ``count`` things of at least so many bytes that cannot be in the file."""
        left = self._size - self._at
        if count * least_bytes > left:
            raise self._error(f"claims {count} {what} at byte {self._at}, but {left} bytes follow")

    def _unpack(self, form: struct.Struct) -> int:
        """Read one number of the frame (never a metadata value, which may be of any type)."""
        self._bound(1, form.size, "number")
        value: int = form.unpack_from(self._buffer, self._at)[0]
        self._at += form.size
        return value

    def _name(self, what: str) -> str:
        start = self._at
        text = self._string(what)
        if len(text) > _MAX_NAME_BYTES:
            raise self._error(f"has a {what} of {len(text)} characters at byte {start}")
        return text

    def _string(self, what: str) -> str:
        return self._strings(1, what)[0]

    def _strings(self, count: int, what: str) -> list[str]:
        """Read strings in one tight loop: a vocabulary has 150,000 and more."""
        self._bound(count, 8, "strings")
        buffer, size, at, length_of = self._buffer, self._size, self._at, _U64.unpack_from
        start = at
        texts: list[str] = []
        append = texts.append
        try:
            for _ in range(count):
                start = at + 8
                at = start + length_of(buffer, at)[0]
                if at > size:
                    raise self._error(f"has a string of {what!r} that ends beyond the file")
                append(buffer[start:at].decode())
        except struct.error as error:
            raise self._error(f"ends inside {what!r}") from error
        except UnicodeDecodeError as error:
            raise self._error(f"has a string of {what!r} at byte {start} that is not UTF-8") from (
                error
            )
        self._at = at
        return texts

    def _value(self, kind: int, key: str, *, depth: int) -> MetadataValue:
        if kind == _STRING:
            return self._string(key)
        if kind == _ARRAY:
            return self._array(key, depth=depth + 1)
        [value] = self._scalars(kind, 1, key)
        return value

    def _array(self, key: str, *, depth: int) -> list[MetadataValue]:
        if depth > _MAX_NESTING:
            raise self._error(f"nests arrays of {key!r} deeper than {_MAX_NESTING}")
        self._bound(1, _ARRAY_HEAD.size, "array")
        kind, count = _ARRAY_HEAD.unpack_from(self._buffer, self._at)
        self._at += _ARRAY_HEAD.size
        if count > _MAX_ARRAY:
            raise self._error(f"claims {count} values of {key!r}, more than {_MAX_ARRAY}")
        if kind == _STRING:
            return [*self._strings(count, key)]
        if kind == _ARRAY:
            self._bound(count, _ARRAY_HEAD.size, "arrays")
            return [self._array(key, depth=depth + 1) for _ in range(count)]
        return self._scalars(kind, count, key)

    def _scalars(self, kind: int, count: int, key: str) -> list[MetadataValue]:
        form = _SCALARS.get(kind)
        if form is None:
            raise self._error(f"gives {key!r} the value type {kind}, which GGUF does not have")
        self._bound(count, form.size, f"values of {key!r}")
        values = struct.unpack_from(f"<{count}{form.format[-1]}", self._buffer, self._at)
        self._at += count * form.size
        return [*values]

    def _refuse_parts(self, metadata: dict[str, MetadataValue]) -> None:
        parts = metadata.get("split.count", 1)
        if isinstance(parts, int) and parts > 1:
            raise CheckpointError(
                f"{self._path}: is one of {parts} parts of a model; octavo reads whole GGUF files. "
                "Join the parts with llama.cpp's gguf-split --merge."
            )

    def _alignment(self, metadata: dict[str, MetadataValue]) -> int:
        alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
        if (
            not isinstance(alignment, int)
            or isinstance(alignment, bool)
            or not 1 <= alignment <= _MAX_ALIGNMENT
            or alignment & (alignment - 1)
        ):
            raise self._error(f"has general.alignment {alignment!r}, which is no power of two")
        return alignment

    def _tensor_entry(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._name("tensor name")
        num_dimensions = self._unpack(_U32)
        if not 1 <= num_dimensions <= _MAX_DIMENSIONS:
            raise self._error(f"gives tensor {name!r} {num_dimensions} dimensions, not 1 to 4")
        form = _DIMENSIONS[num_dimensions]
        self._bound(1, form.size + _PLACE.size, f"place of tensor {name!r}")
        shape = form.unpack_from(self._buffer, self._at)
        kind, offset = _PLACE.unpack_from(self._buffer, self._at + form.size)
        self._at += form.size + _PLACE.size
        return name, shape[::-1], kind, offset

    def _tensor(
        self, name: str, shape: tuple[int, ...], kind: int, place: tuple[int, int, int]
    ) -> GGUFTensor:
        start, offset, alignment = place
        ggml_type = GGML_TYPES.get(kind)
        if ggml_type is None:
            raise CheckpointError(
                f"{self._path}: tensor {name!r} has type "
                f"{UNREADABLE_GGML_TYPES.get(kind, f'number {kind}')}; octavo reads "
                f"{', '.join(known.name for known in GGML_TYPES.values())}. "
                "Use a file quantized to one of these."
            )
        if min(shape) < 1 or shape[-1] % ggml_type.block_elements:
            raise self._error(
                f"gives tensor {name!r} the shape {shape}; its last size must be a multiple of "
                f"{ggml_type.block_elements} for {ggml_type.name}"
            )
        if offset % alignment:
            raise self._error(f"puts tensor {name!r} at {offset}, not a multiple of {alignment}")
        tensor = GGUFTensor(name, shape, ggml_type, start + offset, 0)
        nbytes = tensor.num_elements // ggml_type.block_elements * ggml_type.block_bytes
        if start + offset + nbytes > self._size:
            raise self._error(
                f"has {self._size} bytes, but tensor {name!r} takes {nbytes} from {start + offset}"
            )
        return GGUFTensor(name, shape, ggml_type, start + offset, nbytes)

    def _refuse_overlap(self, tensors: dict[str, GGUFTensor]) -> None:
        end, before = 0, ""
        for tensor in sorted(tensors.values(), key=lambda tensor: tensor.offset):
            if tensor.offset < end:
                raise self._error(f"puts tensor {tensor.name!r} into tensor {before!r}")
            end, before = tensor.offset + tensor.nbytes, tensor.name
