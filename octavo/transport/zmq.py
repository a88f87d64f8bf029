"""The engine channel between processes: ZMQ over a unix socket that only this user can reach.

The API process binds, engines connect, in any order. An engine introduces itself with one empty
message, so the frontend may send before the engine is there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

import zmq
from zmq.utils.monitor import parse_monitor_message

from octavo.transport.base import Frames, PeerGone

_LINGER_MS = 1000
_HELLO = b""


class ZmqFrontend:
    """The API process's end: a router, read by the event loop when its descriptor stirs.

    Reading drains everything that is there, so that a burst costs one wake-up.
    """

    def __init__(self, path: str) -> None:
        self._context = zmq.Context()
        self._socket = _socket(self._context, zmq.ROUTER)
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._socket.bind(f"ipc://{path}")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._arrived = asyncio.Event()
        self._messages: deque[Frames] = deque()
        self._unsent: list[Frames] = []
        self._engine: bytes | None = None
        self._is_gone = False

    async def send(self, frames: Frames) -> None:
        if self._is_gone:
            raise PeerGone("the engine process has ended")
        if self._engine is None:
            self._unsent.append(frames)
            return
        self._write(self._engine, frames)

    async def receive(self) -> Frames:
        self._attach()
        while not self._messages:
            if self._is_gone:
                raise PeerGone("the engine process has ended")
            self._arrived.clear()
            self._drain()
            if not self._messages and not self._is_gone:
                await self._arrived.wait()
        return self._messages.popleft()

    def close(self) -> None:
        if self._socket.closed:
            return
        self._is_gone = True
        self._arrived.set()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._socket)
            self._loop.remove_reader(self._monitor)
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(_LINGER_MS)
        self._context.term()

    def _attach(self) -> None:
        if self._loop is not None or self._socket.closed:
            return
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._drain)
        self._loop.add_reader(self._monitor, self._drain)

    def _write(self, engine: bytes, frames: Frames) -> None:
        # Copied here: an array's memory may be used again by its owner, and even a long
        # prompt is copied faster than ZMQ can hand memory back.
        with contextlib.suppress(zmq.ZMQError):  # unreachable: the monitor is about to say so
            self._socket.send_multipart([engine, *frames], zmq.NOBLOCK)
        if self._loop is not None:
            self._loop.call_soon(self._drain)  # the descriptor stirs once; sending may eat it

    def _drain(self) -> None:
        """Take all that is there; the descriptor stirs again only after that."""
        if self._socket.closed:
            return
        is_gone = self._has_disconnected()  # asked first: what was sent before must be kept
        with contextlib.suppress(zmq.Again):
            while True:
                engine, *frames = self._socket.recv_multipart(zmq.NOBLOCK)
                self._accept(engine, frames)
        self._is_gone = self._is_gone or is_gone
        if self._messages or self._is_gone:
            self._arrived.set()

    def _accept(self, engine: bytes, frames: list[bytes]) -> None:
        if frames != [_HELLO]:
            self._messages.append([*frames])
            return
        self._engine = engine
        self._is_gone = False
        for unsent in self._unsent:
            self._write(engine, unsent)
        self._unsent.clear()

    def _has_disconnected(self) -> bool:
        disconnected = False
        with contextlib.suppress(zmq.Again):
            while True:
                parse_monitor_message(self._monitor.recv_multipart(zmq.NOBLOCK))
                disconnected = True
        return disconnected and self._engine is not None


class ZmqEngine:
    """The engine process's end: a dealer with a short name."""

    def __init__(self, path: str, *, engine: int = 0, generation: int = 0) -> None:
        self._context = zmq.Context()
        self._socket = _socket(self._context, zmq.DEALER)
        self._socket.identity = f"{engine}.{generation}".encode()
        self._socket.reconnect_ivl = 20  # [ms] the API process may still be importing
        self._socket.reconnect_ivl_max = 1000
        self._socket.connect(f"ipc://{path}")
        self._socket.send(_HELLO)

    def send(self, frames: Frames) -> None:
        self._socket.send_multipart(frames, zmq.NOBLOCK)

    def receive(self, timeout_s: float | None) -> Frames | None:
        if timeout_s != 0 and not self._wait(timeout_s):
            return None
        try:
            return [*self._socket.recv_multipart(zmq.NOBLOCK)]
        except zmq.Again:
            return None

    def close(self) -> None:
        if not self._socket.closed:
            self._socket.close(_LINGER_MS)
            self._context.term()

    def _wait(self, timeout_s: float | None) -> bool:
        timeout_ms = None if timeout_s is None else max(1, round(timeout_s * 1000))
        return bool(self._socket.poll(timeout_ms))


def _socket(context: zmq.Context[zmq.Socket[bytes]], kind: int) -> zmq.Socket[bytes]:
    """Make a socket whose queues have no bound, so that sending never waits."""
    socket = context.socket(kind)
    socket.sndhwm = socket.rcvhwm = 0
    socket.linger = _LINGER_MS
    return socket
