"""The engine channel inside one process: two queues between an event loop and a thread."""

from __future__ import annotations

import asyncio
from collections import deque
from queue import Empty, SimpleQueue

from octavo.transport.base import Frames, PeerGone


class InProcessFrontend:
    """The event loop's end. Bound to the loop that first calls ``receive``."""

    def __init__(self, to_engine: SimpleQueue[Frames], inbox: _Inbox) -> None:
        self._to_engine = to_engine
        self._inbox = inbox

    async def send(self, frames: Frames) -> None:
        if self._inbox.is_closed:
            raise PeerGone("the engine thread has ended")
        self._to_engine.put(frames)

    async def receive(self) -> Frames:
        return await self._inbox.take()

    def close(self) -> None:
        self._inbox.shut()


class InProcessEngine:
    """The engine thread's end."""

    def __init__(self, from_frontend: SimpleQueue[Frames], outbox: _Inbox) -> None:
        self._from_frontend = from_frontend
        self._outbox = outbox

    def send(self, frames: Frames) -> None:
        self._outbox.put(frames)

    def receive(self, timeout_s: float | None) -> Frames | None:
        try:
            if timeout_s == 0:
                return self._from_frontend.get_nowait()
            return self._from_frontend.get(timeout=timeout_s)
        except Empty:
            return None

    def close(self) -> None:
        self._outbox.shut()


def channel() -> tuple[InProcessFrontend, InProcessEngine]:
    """Both ends of a new channel."""
    to_engine: SimpleQueue[Frames] = SimpleQueue()
    to_frontend = _Inbox()
    return InProcessFrontend(to_engine, to_frontend), InProcessEngine(to_engine, to_frontend)


class _Inbox:
    """Messages for one event loop, put by any thread.

    A burst costs one wake-up of the loop: ``_wake`` is scheduled only where none is pending.
    """

    def __init__(self) -> None:
        self._messages: deque[Frames] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._arrived = asyncio.Event()
        self._is_waking = False
        self.is_closed = False

    def put(self, frames: Frames) -> None:
        self._messages.append(frames)
        self._wake_loop()

    def shut(self) -> None:
        self.is_closed = True
        self._wake_loop()

    async def take(self) -> Frames:
        self._loop = asyncio.get_running_loop()
        while not self._messages:
            if self.is_closed:
                raise PeerGone("the engine thread has ended")
            self._arrived.clear()
            if self._messages or self.is_closed:  # came between the test and the clear
                continue
            await self._arrived.wait()
        return self._messages.popleft()

    def _wake_loop(self) -> None:
        if self._loop is None or self._is_waking or self._loop.is_closed():
            return  # nobody waits yet, or nobody can
        self._is_waking = True
        self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._is_waking = False
        self._arrived.set()
