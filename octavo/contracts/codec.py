"""The only encoder of messages: msgpack, with arrays beside the message.

A message becomes a list of frames: the first is msgpack, each further one the raw bytes of
an array named by it. Whoever carries the frames (a socket, a ring) need not copy them.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

Frame = bytes | memoryview

IntArray = NDArray[np.int32]
"""Column of integers in a message: int32, C-contiguous."""
FloatArray = NDArray[np.float32]
"""Column of numbers in a message: float32, C-contiguous."""

_DTYPES = {"i": np.dtype(np.int32), "f": np.dtype(np.float32)}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}

T = TypeVar("T")


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True, omit_defaults=True, gc=False):
    """Base of every type that crosses a process boundary."""


class Codec(Generic[T]):
    """Encode and decode one message type, or a union of them.

    Not thread-safe: each thread makes its own.
    """

    def __init__(self, message_type: Any) -> None:  # Any: a union is not a type to mypy
        self._buffers: list[Frame] = []
        self._encoder = msgspec.msgpack.Encoder(enc_hook=self._take_out)
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(
            message_type, dec_hook=self._put_back
        )

    def encode(self, message: T) -> list[Frame]:
        """Return the frames of ``message``; array frames share memory with its arrays."""
        self._buffers = []
        head = self._encoder.encode(message)
        frames: list[Frame] = [head, *self._buffers]
        self._buffers = []
        return frames

    def decode(self, frames: list[Frame]) -> T:
        """Return the message; its arrays are read-only views of ``frames``.

        Raises:
            msgspec.MsgspecError: the frames are no message of this type.
        """
        self._buffers = list(frames[1:])
        try:
            return self._decoder.decode(frames[0])
        finally:
            self._buffers = []

    def _take_out(self, value: object) -> object:
        if not isinstance(value, np.ndarray) or value.dtype not in _CODES:
            raise TypeError(f"{type(value)} cannot cross a process boundary")
        self._buffers.append(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
        return [_CODES[value.dtype], list(value.shape), len(self._buffers) - 1]

    def _put_back(self, wanted: type, value: Any) -> object:  # Any: decoded, checked below
        if wanted is not np.ndarray and getattr(wanted, "__origin__", None) is not np.ndarray:
            raise TypeError(f"{wanted} is no message field")
        try:
            code, shape, index = value
            return np.frombuffer(self._buffers[index], dtype=_DTYPES[code]).reshape(shape)
        except LookupError as error:
            raise ValueError(f"array {value} is not among {len(self._buffers)} frames") from error
