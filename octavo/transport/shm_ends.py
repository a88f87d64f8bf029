"""The ends of a shared-memory ring: descriptors to hand down, bells to sleep on.

A bell is a socket pair of which only the stirring counts, and the end: whoever waits for the
other process sleeps in ``poll`` on it, and sees there when that process ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from dataclasses import dataclass
from threading import Lock

from octavo.transport.base import PeerGone

DEFAULT_CAPACITY = 4 << 20
LINE = 64
"""Bytes of a cache line; each reader has one in the header of the ring."""

_BELL = b"\0"
_fence_lock = Lock()


@dataclass(frozen=True, slots=True)
class ReaderFds:
    """The descriptors one reader needs; inheritable through ``pass_fds``."""

    memory: int
    bell: int
    bulk: int

    def __str__(self) -> str:
        return f"{self.memory},{self.bell},{self.bulk}"

    @property
    def all(self) -> tuple[int, ...]:
        return (self.memory, self.bell, self.bulk)

    @classmethod
    def parse(cls, text: str) -> ReaderFds:
        memory, bell, bulk = (int(part) for part in text.split(","))
        return cls(memory, bell, bulk)


@dataclass(frozen=True, slots=True)
class WriterFds:
    """The descriptors the writer needs, where it is the child."""

    memory: int
    bells: tuple[int, ...]
    bulks: tuple[int, ...]

    def __str__(self) -> str:
        return ":".join([str(self.memory), *map(str, (*self.bells, *self.bulks))])

    @classmethod
    def parse(cls, text: str) -> WriterFds:
        memory, *rest = (int(part) for part in text.split(":"))
        half = len(rest) // 2
        return cls(memory, tuple(rest[:half]), tuple(rest[half:]))

    @property
    def all(self) -> tuple[int, ...]:
        return (self.memory, *self.bells, *self.bulks)


def make_ring(
    num_readers: int, capacity: int = DEFAULT_CAPACITY
) -> tuple[WriterFds, list[ReaderFds]]:
    """Create the memory and the sockets of a ring; the ends are made from the descriptors."""
    if capacity % LINE or capacity < 4 * LINE:
        raise ValueError(f"capacity={capacity}: must be a multiple of {LINE} and hold 4 lines")
    memory = os.memfd_create("octavo-ring")
    os.ftruncate(memory, num_readers * LINE + capacity)
    bells = [socket.socketpair() for _ in range(num_readers)]
    bulks = [socket.socketpair() for _ in range(num_readers)]
    writer = WriterFds(
        memory,
        tuple(ours.detach() for ours, _ in bells),
        tuple(ours.detach() for ours, _ in bulks),
    )
    readers = [
        ReaderFds(os.dup(memory), bell.detach(), bulk.detach())
        for (_, bell), (_, bulk) in zip(bells, bulks, strict=True)
    ]
    return writer, readers


def sleep(bells: list[socket.socket], timeout_s: float | None) -> list[int]:
    """Wait until a bell can be read; return the indexes of those that can."""
    poller = select.poll()
    for bell in bells:
        poller.register(bell, select.POLLIN)
    stirred = dict(poller.poll(None if timeout_s is None else max(0.0, timeout_s * 1000)))
    return [index for index, bell in enumerate(bells) if bell.fileno() in stirred]


def ring(bell: socket.socket) -> None:
    with contextlib.suppress(OSError):  # full: it rings already; broken: whoever waits will see
        bell.send(_BELL)


def drain(bell: socket.socket, why: str) -> None:
    try:
        while True:
            if not bell.recv(4096):
                raise PeerGone(why)
    except BlockingIOError:
        return
    except ConnectionResetError:
        raise PeerGone(why) from None


def receive_exactly(end: socket.socket, size: int) -> bytes:
    body = bytearray(size)
    view = memoryview(body)
    while view:
        received = end.recv_into(view)
        if not received:
            raise PeerGone("the writer of the ring has ended inside a message")
        view = view[received:]
    return bytes(body)


def fence() -> None:
    """Order memory accesses before and after: taking a lock is a fence on every machine."""
    with _fence_lock:
        pass


def adopt(fd: int) -> socket.socket:
    end = socket.socket(fileno=fd)
    end.settimeout(0)
    return end
