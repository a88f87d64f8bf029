"""Server-sent events: framing, keep-alive, and a client that hangs up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from octavo.api.http.errors import Stopping, error_body
from octavo.kit.errors import OctavoError

T = TypeVar("T")

DONE = b"data: [DONE]\n\n"
_KEEP_ALIVE = b": keep-alive\n\n"
_log = logging.getLogger(__name__)
_encoder = msgspec.json.Encoder()


class ClientGone(Exception):
    """The client hung up before the answer began; there is nobody to tell."""


def event(value: msgspec.Struct) -> bytes:
    """Frame of one event."""
    return b"data: %b\n\n" % _encoder.encode(value)


class EventStream(Response):
    """Answer that sends events as they come.

    Ends with an error event where ``events`` raises, and stops within one event when the client
    hangs up. ``close`` runs in every case; it ends the requests behind ``events``.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncGenerator[bytes],
        close: Callable[[], Awaitable[None]],
        *,
        keep_alive_s: float = 15.0,
    ) -> None:
        super().__init__()
        self._events = events
        self._close = close
        self._keep_alive_s = keep_alive_s
        self._sent = 0
        self._has_ended = False
        self.raw_headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
            (b"x-accel-buffering", b"no"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        sender = asyncio.create_task(self._send_events(send))
        watcher = asyncio.create_task(hang_up(receive))
        try:
            await send(start)
            await self._watch(sender, watcher, send)
        except asyncio.CancelledError:  # the server ends before the stream does
            await _stop(sender)
            if not self._has_ended:
                await self._send_error(Stopping(), send)
            raise
        finally:
            await _stop(sender, watcher)
            await self._close()

    async def _watch(
        self, sender: asyncio.Task[None], watcher: asyncio.Task[None], send: Send
    ) -> None:
        while True:
            sent = self._sent
            done, _ = await asyncio.wait(
                (sender, watcher),
                timeout=self._keep_alive_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if done:
                return
            if sent == self._sent:
                await send(_piece(_KEEP_ALIVE))

    async def _send_events(self, send: Send) -> None:
        try:
            async with aclosing(self._events) as events:
                async for piece in events:
                    self._sent += 1
                    await send(_piece(piece))
        except Exception as error:  # noqa: BLE001  the guard of one request
            if isinstance(error, OctavoError):
                _log.warning("a stream ended early: %s", error)
            else:
                _log.exception("a stream ended early")
            await self._send_error(error, send)
        else:
            await self._send_end(send)

    async def _send_error(self, error: Exception, send: Send) -> None:
        await send(_piece(event(error_body(error)[1]) + DONE))
        await self._send_end(send)

    async def _send_end(self, send: Send) -> None:
        self._has_ended = True
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def unless_gone(receive: Receive, work: Coroutine[None, None, T]) -> T:
    """Await ``work``, cancelling it when the client hangs up.

    Raises:
        ClientGone: the client hung up first.
    """
    task = asyncio.create_task(work)
    watcher = asyncio.create_task(hang_up(receive))
    try:
        await asyncio.wait((task, watcher), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return task.result()
    finally:
        await _stop(task, watcher)


async def hang_up(receive: Receive) -> None:
    """Return when the client has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _stop(*tasks: asyncio.Task[Any]) -> None:  # Any: their results are not looked at
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _piece(data: bytes) -> dict[str, object]:
    return {"type": "http.response.body", "body": data, "more_body": True}
