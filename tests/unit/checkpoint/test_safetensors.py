from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from octavo.checkpoint.safetensors import INDEX, indexed_files, read_safetensors
from octavo.kit.errors import CheckpointError
from tests.unit.checkpoint import build


def refusal(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        read_safetensors(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def refused(path: Path) -> str:
    """Return the refusal, or nothing where the file is sound; nothing else may happen."""
    try:
        tensors = read_safetensors(path)
    except CheckpointError as error:
        return str(error)
    assert all(t.offset + t.nbytes <= path.stat().st_size for t in tensors.values())
    return ""


def sharded(folder: Path, weight_map: object, **files: bytes) -> Path:
    (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    for name, data in files.items():
        (folder / f"{name}.safetensors").write_bytes(data)
    return folder


def test_what_the_reference_library_writes_is_located(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.ones((), np.float16),
        "c": np.zeros((0, 4), np.int64),
    }
    save_file(arrays, tmp_path / "model.safetensors", metadata={"format": "np"})

    tensors = read_safetensors(tmp_path)

    data = (tmp_path / "model.safetensors").read_bytes()
    assert tensors.keys() == arrays.keys()
    for name, array in arrays.items():
        tensor = tensors[name]
        assert (tensor.shape, tensor.num_elements) == (array.shape, array.size)
        assert data[tensor.offset : tensor.offset + tensor.nbytes] == array.tobytes()


def test_a_file_may_be_named_itself_or_be_the_only_one(tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    path.write_bytes(build.one_tensor())

    assert read_safetensors(path).keys() == {"w"}
    assert read_safetensors(tmp_path).keys() == {"w"}


def test_an_index_joins_files(tmp_path: Path) -> None:
    sharded(
        tmp_path,
        {"a": "1.safetensors", "b": "2.safetensors"},
        **{"1": build.one_tensor("a"), "2": build.one_tensor("b")},
    )

    tensors = read_safetensors(tmp_path)

    assert {name: tensor.file.name for name, tensor in tensors.items()} == {
        "a": "1.safetensors",
        "b": "2.safetensors",
    }
    assert indexed_files(tmp_path) == ["1.safetensors", "2.safetensors"]


def test_a_tensor_of_the_index_must_be_where_it_says(tmp_path: Path) -> None:
    both = {"1": build.one_tensor("a"), "2": build.one_tensor("b")}

    assert "has no tensor 'c'" in refusal(sharded(tmp_path, {"c": "1.safetensors"}, **both))
    swapped = {"a": "2.safetensors", "b": "1.safetensors"}
    assert "has no tensor 'a'" in refusal(sharded(tmp_path, swapped, **both))


def test_a_tensor_in_two_files_is_refused(tmp_path: Path) -> None:
    twice = {"1": build.one_tensor("a"), "2": build.one_tensor("a")}
    folder = sharded(tmp_path, {"a": "1.safetensors", "b": "2.safetensors"}, **twice)

    assert "is in 1.safetensors and in 2.safetensors" in refusal(folder)


@pytest.mark.parametrize("file", ["../x.safetensors", "", "a/b", "/etc/passwd", 3, None])
def test_an_index_cannot_point_out_of_its_folder(tmp_path: Path, file: object) -> None:
    assert "no file name in this folder" in refusal(sharded(tmp_path, {"a": file}))


def test_a_missing_shard_and_a_missing_map_are_named(tmp_path: Path) -> None:
    assert "gone.safetensors: No such file" in refusal(sharded(tmp_path, {"a": "gone.safetensors"}))
    assert "'weight_map' is None" in refusal(sharded(tmp_path, None))


def test_folders_that_leave_a_choice_are_refused(tmp_path: Path) -> None:
    assert "(found: none)" in refusal(tmp_path)

    for name in ("a", "b"):
        (tmp_path / f"{name}.safetensors").write_bytes(build.one_tensor())
    assert "(found: a.safetensors, b.safetensors)" in refusal(tmp_path)


def header(**tensors: object) -> bytes:
    return build.safetensors(tensors, b"\0" * 8)


def tensor(dtype: object = "F32", shape: object = (2,), place: object = (0, 8)) -> object:
    return {"dtype": dtype, "shape": shape, "data_offsets": place}


BROKEN = {
    "an empty file": (b"", "a header of 0 bytes in a file of 0"),
    "a short file": (b"\x01\0\0", "in a file of 3"),
    "a header beyond the end": (struct.pack("<Q", 1 << 60) + b"{}", "claims a header of"),
    "a header that is no JSON": (build.safetensors(b"{"), "no readable JSON"),
    "a header that is too deep": (build.safetensors(b"[" * 100_000), "too deeply nested"),
    "a header that is a list": (build.safetensors([]), "expected a JSON object"),
    "a number with too many digits": (build.safetensors(b"9" * 5000), "no readable JSON"),
    "bytes that are no text": (build.safetensors(b'"\xff"'), "no readable JSON"),
    "a name twice": (build.safetensors(b'{"a": 1, "a": 2}'), "'a' occurs 2 times"),
    "a tensor that is a number": (header(a=1), "'a' is 1, expected a JSON object"),
    "an unknown dtype": (header(a=tensor("F7")), "has dtype 'F7'; octavo reads F64"),
    "a dtype that is a list": (header(a=tensor([])), "has dtype []"),
    "a negative size": (header(a=tensor(shape=[-2])), "shape [-2]"),
    "a size that is true": (header(a=tensor(shape=[True])), "shape [True]"),
    "too many sizes": (header(a=tensor(shape=[1] * 17)), "gives tensor 'a' shape"),
    "a shape that is a text": (header(a=tensor(shape="2")), "shape '2'"),
    "three offsets": (header(a=tensor(place=[0, 8, 9])), "at [0, 8, 9]"),
    "an end before its start": (header(a=tensor(place=[8, 0])), "gives tensor 'a' -8 bytes"),
    "bytes that do not fit": (header(a=tensor(place=[0, 4])), "4 bytes, but F32 of shape [2]"),
    "an overlap": (
        header(a=tensor(), b=tensor("U8", [8], [0, 8])),
        "at byte",
    ),
    "a hole": (header(a=tensor(shape=[1], place=[4, 8])), "expected at"),
    "an end beyond the file": (header(a=tensor(shape=[4], place=[0, 16])), "describes"),
    "bytes that nobody owns": (header(), "its header describes"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_with_a_reason(tmp_path: Path, name: str) -> None:
    data, reason = BROKEN[name]
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)

    assert reason in refusal(path)


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole, path = build.one_tensor(), tmp_path / "model.safetensors"

    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        refusal(path)


@settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    changes=st.lists(st.tuples(st.integers(0, 120), st.binary(min_size=1, max_size=4)), max_size=4)
)
def test_changed_bytes_give_tensors_or_a_refusal(
    tmp_path: Path, changes: list[tuple[int, bytes]]
) -> None:
    data = bytearray(build.one_tensor())
    for place, piece in changes:
        data[place : place + len(piece)] = piece
    path = tmp_path / "model.safetensors"
    path.write_bytes(bytes(data))

    assert "\n" not in refused(path)


def test_a_json_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with (tmp_path / INDEX).open("wb") as file:
        file.truncate((128 << 20) + 1)

    assert "is larger than 134217728 bytes" in refusal(tmp_path)
