"""A shared-memory ring: one writer, N readers, each reader sees every message.

The memory is an anonymous file handed down by descriptor: it has no name, so nothing is left
behind. Layout::

    header     one 64-byte line per reader: its position, and whether the writer waits for it
    data       records, each 16-byte aligned: sequence number, size, kind; then the message

Positions only grow; ``position % capacity`` is the place. The sequence number is written last,
behind a fence, and the place of the following one is zeroed before that, so that a reader never
takes old bytes for a record. A record does not wrap: where it does not fit before the end, a
``_SKIP`` record fills the rest. A message above ``capacity / 4`` goes by socket, and a
``_STUB`` record stands for it.

Beside the ring each reader has two socket pairs: a bell (one byte when a record is there, one
byte back when room is) and the one for long messages. Whoever waits, sleeps in ``poll`` on the
bell after a short spin, and sees there when the other process ends.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
import time
from collections.abc import Sequence

from octavo.transport.base import Frames, PeerGone
from octavo.transport.shm_ends import (
    LINE,
    ReaderFds,
    WriterFds,
    adopt,
    drain,
    fence,
    receive_exactly,
    ring,
    sleep,
)

_RECORD = struct.Struct("=QII")
"""Sequence number, size, kind."""
_MESSAGE, _SKIP, _STUB = 0, 1, 2
_ALIGN = 16
_SPIN_S = 20e-6
_RECHECK_S = 0.05
"""A writer that waits for room looks again after this, in case the bell crossed its sleep."""


class RingWriter:
    """The sending end. Used from one thread.

    Invariant: the sequence number at ``_position`` is zero, and every reader's position is
    within one capacity of it.
    """

    def __init__(self, fds: WriterFds) -> None:
        self._memory = mmap.mmap(fds.memory, 0)
        os.close(fds.memory)
        num_readers = len(fds.bells)
        self._view = memoryview(self._memory)
        self._lines = self._view[: num_readers * LINE].cast("Q")
        self._data = self._view[num_readers * LINE :]
        self._numbers = self._data.cast("Q")  # an item is stored whole, a slice byte by byte
        self._capacity = len(self._data)
        self._bells = [adopt(fd) for fd in fds.bells]
        self._bulks = [adopt(fd) for fd in fds.bulks]
        for bulk in self._bulks:
            bulk.settimeout(None)
        self._position = 0
        self._sequence = 0
        self._free_until = self._capacity
        """Positions below this are known to be read by everyone."""
        self._is_closed = False

    def send(self, frames: Frames, timeout_s: float | None = None) -> None:
        """Hand a message to every reader; waits only where a reader lags by a whole ring.

        Raises:
            PeerGone: a reader has ended.
            TimeoutError: a reader made no room in ``timeout_s``; nothing was sent.
        """
        prefix = struct.pack(f"=I{len(frames)}I", len(frames), *map(len, frames))
        size = len(prefix) + sum(map(len, frames))
        if size > self._capacity // 4:
            self._send_long(prefix, frames, size, timeout_s)
            return
        at = self._reserve(size, timeout_s) + _RECORD.size
        for part in (prefix, *frames):
            self._data[at : at + len(part)] = part
            at += len(part)
        self._publish(size, _MESSAGE)

    def close(self) -> None:
        """Release memory and sockets; readers get what was sent, then ``PeerGone``. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        _release(self._memory, [self._lines, self._numbers, self._data, self._view])
        for end in (*self._bells, *self._bulks):
            end.close()

    def _send_long(self, prefix: bytes, frames: Frames, size: int, timeout_s: float | None) -> None:
        at = self._reserve(8, timeout_s) + _RECORD.size
        self._data[at : at + 8] = struct.pack("=Q", size)
        self._publish(8, _STUB)
        try:
            for bulk in self._bulks:
                for part in (prefix, *frames):
                    bulk.sendall(part)
        except OSError as error:
            raise PeerGone("a reader of the ring has ended") from error

    def _reserve(self, size: int, timeout_s: float | None) -> int:
        """Find room for a record and the number after it; return its place."""
        place = self._position % self._capacity
        needed = _padded(size)
        if place + needed > self._capacity:
            rest = self._capacity - place
            self._wait_for_room(rest + needed + _ALIGN, timeout_s)
            self._publish(rest - _RECORD.size, _SKIP)
            return 0
        self._wait_for_room(needed + _ALIGN, timeout_s)
        return place

    def _publish(self, size: int, kind: int) -> None:
        """Make the record at ``_position`` visible, and the place after it ready."""
        place = self._position % self._capacity
        self._position += _padded(size)
        self._numbers[self._position % self._capacity // 8] = 0
        self._sequence += 1
        struct.pack_into("=II", self._data, place + 8, size, kind)
        fence()
        self._numbers[place // 8] = self._sequence
        fence()
        for bell in self._bells:
            ring(bell)

    def _wait_for_room(self, needed: int, timeout_s: float | None) -> None:
        end = self._position + needed
        if end <= self._free_until:
            return
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        for reader, bell in enumerate(self._bells):
            line = reader * LINE // 8
            while end > self._lines[line] + self._capacity:
                if deadline is not None and time.monotonic() >= deadline:
                    raise TimeoutError(f"reader {reader} of the ring made no room in {timeout_s} s")
                self._lines[line + 1] = 1
                fence()
                if end > self._lines[line] + self._capacity and sleep([bell], _RECHECK_S):
                    drain(bell, "a reader of the ring has ended")
            self._lines[line + 1] = 0
        slowest = min(self._lines[reader * LINE // 8] for reader in range(len(self._bells)))
        self._free_until = slowest + self._capacity


class RingReader:
    """A receiving end. Used from one thread."""

    def __init__(self, fds: ReaderFds, *, reader: int = 0, num_readers: int = 1) -> None:
        self._memory = mmap.mmap(fds.memory, 0)
        os.close(fds.memory)
        self._view = memoryview(self._memory)
        self._line = self._view[reader * LINE : (reader + 1) * LINE].cast("Q")
        self._data = self._view[num_readers * LINE :]
        self._numbers = self._data.cast("Q")
        self._capacity = len(self._data)
        self._bell = adopt(fds.bell)
        self._bulk = adopt(fds.bulk)
        self._bulk.settimeout(None)
        self._position = 0
        self._next = 1
        self._is_closed = False

    def receive(self, timeout_s: float | None) -> Frames | None:
        """Take the next message; None when none came in ``timeout_s`` (None waits without end).

        Raises:
            PeerGone: the writer has ended, and all it sent has been received.
        """
        found = receive_any([self], timeout_s)
        return None if found is None else found[1]

    def close(self) -> None:
        """Release memory and sockets; the writer gets ``PeerGone`` once it waits. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        _release(self._memory, [self._line, self._numbers, self._data, self._view])
        self._bell.close()
        self._bulk.close()

    @property
    def has_message(self) -> bool:
        """A record is there, perhaps one that only fills the end of the ring."""
        return self._numbers[self._position % self._capacity // 8] == self._next

    def take(self) -> Frames | None:
        """Take the next message if it is there; never waits."""
        while self.has_message:
            fence()
            place = self._position % self._capacity
            _, size, kind = _RECORD.unpack_from(self._data, place)
            start = place + _RECORD.size
            if kind == _SKIP:
                self._advance(size)
                continue
            body = bytes(self._data[start : start + size])
            self._advance(size)
            if kind == _STUB:
                body = receive_exactly(self._bulk, struct.unpack("=Q", body)[0])
            return _split(body)
        return None

    def drain_bell(self) -> None:
        """Silence the bell, or raise ``PeerGone`` where the writer has closed it."""
        drain(self._bell, "the writer of the ring has ended")

    @property
    def bell(self) -> socket.socket:
        return self._bell

    def _advance(self, size: int) -> None:
        self._position += _padded(size)
        self._next += 1
        self._line[0] = self._position
        fence()
        if self._line[1]:
            ring(self._bell)


def receive_any(
    readers: Sequence[RingReader], timeout_s: float | None
) -> tuple[int, Frames] | None:
    """Take the next message of any of the rings, with the index of its ring.

    Raises:
        PeerGone: a writer has ended and left no message; ``args[1]`` is the index of its ring.
    """
    start = time.monotonic()
    while True:
        for index, reader in enumerate(readers):
            frames = reader.take()
            if frames is not None:
                return index, frames
        if timeout_s == 0:
            _sleep_and_drain(readers, 0)
            return _first(readers)
        waited = time.monotonic() - start
        if waited < _SPIN_S:
            continue
        if timeout_s is not None and waited >= timeout_s:
            return None
        _sleep_and_drain(readers, None if timeout_s is None else timeout_s - waited)


def _first(readers: Sequence[RingReader]) -> tuple[int, Frames] | None:
    for index, reader in enumerate(readers):
        frames = reader.take()
        if frames is not None:
            return index, frames
    return None


def _sleep_and_drain(readers: Sequence[RingReader], timeout_s: float | None) -> None:
    """Sleep until a bell rings. A record that came meanwhile has rung it, so none is missed."""
    for index in sleep([reader.bell for reader in readers], timeout_s):
        try:
            readers[index].drain_bell()
        except PeerGone as gone:
            if not any(reader.has_message for reader in readers):
                raise PeerGone(str(gone), index) from None


def _split(body: bytes) -> Frames:
    (count,) = struct.unpack_from("=I", body)
    sizes = struct.unpack_from(f"={count}I", body, 4)
    view = memoryview(body)
    at = 4 + 4 * count
    frames: Frames = []
    for size in sizes:
        frames.append(view[at : at + size])
        at += size
    return frames


def _padded(size: int) -> int:
    """Bytes of a record whose message has ``size``."""
    return -(-(_RECORD.size + size) // _ALIGN) * _ALIGN


def _release(memory: mmap.mmap, views: list[memoryview]) -> None:
    for view in views:
        view.release()
    memory.close()
