"""Arrays travel beside the message, and only arrays do."""

from __future__ import annotations

import contextlib

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from octavo.contracts.codec import Codec, FloatArray, IntArray, Message
from octavo.contracts.request import Abort, EngineRequest
from octavo.contracts.schedule import SchedulerOutput
from tests.contracts.samples import full


class Columns(Message, frozen=True):
    """Two arrays and what stands between them."""

    left: IntArray
    name: str
    right: FloatArray | None = None


shapes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5)


@given(hnp.arrays(np.int32, shapes), st.text(), st.none() | hnp.arrays(np.float32, shapes))
def test_any_array_survives_the_round_trip(
    left: IntArray, name: str, right: FloatArray | None
) -> None:
    codec: Codec[Columns] = Codec(Columns)

    arrived = codec.decode(codec.encode(Columns(left, name, right)))

    assert arrived.name == name
    np.testing.assert_array_equal(arrived.left, left)
    assert arrived.left.shape == left.shape
    assert (arrived.right is None) == (right is None)
    if right is not None and arrived.right is not None:
        np.testing.assert_array_equal(arrived.right, right)


def test_arrays_are_not_copied_on_the_way_out() -> None:
    array = np.arange(4, dtype=np.int32)
    _, frame = Codec[Columns](Columns).encode(Columns(array, "shared"))

    array[0] = 9

    assert np.frombuffer(frame, dtype=np.int32)[0] == 9


def test_a_strided_array_arrives_as_it_looks() -> None:
    codec: Codec[Columns] = Codec(Columns)
    array = np.arange(12, dtype=np.int32).reshape(3, 4).T[::2]

    arrived = codec.decode(codec.encode(Columns(array, "strided")))

    np.testing.assert_array_equal(arrived.left, array)


def test_a_decoded_array_cannot_be_written() -> None:
    codec: Codec[Columns] = Codec(Columns)
    frames = [bytes(frame) for frame in codec.encode(Columns(np.zeros(3, np.int32), "read"))]

    arrived = codec.decode(list(frames))

    with pytest.raises(ValueError, match="read-only"):
        arrived.left[0] = 1


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.uint8, np.bool_])
def test_an_array_of_another_type_is_refused(dtype: type) -> None:
    with pytest.raises(TypeError, match="cannot cross a process boundary"):
        Codec[Columns](Columns).encode(Columns(np.zeros(3, dtype), "wrong"))


def test_an_object_that_is_no_message_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot cross a process boundary"):
        Codec[Abort](Abort).encode(Abort([object()]))  # type: ignore[list-item]  # the wrong thing


def test_a_codec_forgets_a_message_it_could_not_encode() -> None:
    codec: Codec[Columns] = Codec(Columns)
    with pytest.raises(TypeError):
        codec.encode(Columns(np.zeros(2, np.int32), "x", np.zeros(2)))  # type: ignore[arg-type]  # wrong dtype

    frames = codec.encode(Columns(np.zeros(2, np.int32), "y"))

    assert len(frames) == 2


class Foreign(Message, frozen=True):
    """A field of a type that the codec does not know."""

    value: complex


def test_a_field_of_a_foreign_type_is_refused_where_it_arrives() -> None:
    frames = Codec[Abort](Abort).encode(Abort(["x"]))
    named = bytes(frames[0]).replace(b"\xa5Abort", b"\xa7Foreign")

    with pytest.raises(msgspec.ValidationError, match="is no message field"):
        Codec[Foreign](Foreign).decode([named])


def damaged() -> list[tuple[str, list[bytes]]]:
    """Frames that are no ``SchedulerOutput``."""
    frames = [
        bytes(f) for f in Codec[SchedulerOutput](SchedulerOutput).encode(full(SchedulerOutput))
    ]
    other = [bytes(f) for f in Codec[EngineRequest](EngineRequest).encode(full(EngineRequest))]
    code = frames[0].replace(b"\xa1i", b"\xa1q")
    return [
        ("empty", [b""]),
        ("cut", [frames[0][:-3], *frames[1:]]),
        ("another type", other),
        ("no arrays", frames[:1]),
        ("arrays too short", [frames[0], *(frame[:-4] for frame in frames[1:])]),
        ("unknown array type", [code, *frames[1:]]),
        ("text", [b"GET / HTTP/1.1"]),
    ]


@pytest.mark.parametrize("frames", [pytest.param(f, id=name) for name, f in damaged()])
def test_frames_that_are_no_message_are_refused(frames: list[bytes]) -> None:
    with pytest.raises(msgspec.MsgspecError):
        Codec[SchedulerOutput](SchedulerOutput).decode(list(frames))


@given(st.binary(max_size=64), st.lists(st.binary(max_size=16), max_size=3))
def test_noise_is_refused_or_understood_but_never_breaks_the_codec(
    head: bytes, arrays: list[bytes]
) -> None:
    codec: Codec[SchedulerOutput] = Codec(SchedulerOutput)
    with contextlib.suppress(msgspec.MsgspecError):
        codec.decode([head, *arrays])
