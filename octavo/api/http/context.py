"""Outermost middleware: the request's id, its guard, its log line."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from octavo.api.http.errors import Stopping, error_reply
from octavo.kit.log import request_id

_log = logging.getLogger(__name__)
_MAX_ID_LENGTH = 128
_NOT_IN_AN_ID = re.compile(r"[^A-Za-z0-9._:-]")


class RequestContext:
    """Middleware: take or make ``X-Request-Id``, return it, and put it on every log line.

    An exception that nobody foresaw ends here: it is logged, and the request alone gets a 500.
    So does the cancelling of a request that outlasts the server, which gets a 503.
    ``HEAD`` is routed as ``GET``; the server leaves the body out.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        name = _clean(Headers(scope=scope).get("x-request-id", "")) or uuid4().hex
        token = request_id.set(name)
        started = time.perf_counter()
        answer = _Answer(send, name)
        method = scope["method"]
        if method == "HEAD":
            scope = {**scope, "method": "GET"}
        try:
            await self._app(scope, receive, answer.send)
        except asyncio.CancelledError:  # the server ends; a stream has told its client itself
            _log.info("%s %s is ended: the server is stopping", method, scope["path"])
            if answer.status == 0:
                await error_reply(Stopping())(scope, receive, answer.send)
        except Exception:  # noqa: BLE001  the guard of one request
            _log.exception("%s %s failed", method, scope["path"])
            if answer.status == 0:
                await error_reply(RuntimeError())(scope, receive, answer.send)
        finally:
            elapsed_ms = 1e3 * (time.perf_counter() - started)
            _log.debug("%s %s %d %.1f ms", method, scope["path"], answer.status, elapsed_ms)
            request_id.reset(token)


class _Answer:
    """Adds the id to the headers and remembers whether an answer has begun."""

    def __init__(self, send: Send, name: str) -> None:
        self._send = send
        self._header = (b"x-request-id", name.encode("ascii"))
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], self._header]
        await self._send(message)


def _clean(given: str) -> str:
    return _NOT_IN_AN_ID.sub("", given)[:_MAX_ID_LENGTH]
