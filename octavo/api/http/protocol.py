"""HTTP/1.1 on one connection: uvicorn's, with bounded heads and errors in OpenAI's shape."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from octavo.api.http.errors import HeadTooLarge, NotHttp, error_body
from octavo.kit.errors import RequestRefused

MAX_HEAD_BYTES = 64 * 1024
"""Request line, headers and trailers of one request together."""
_PIECE_BYTES = 16 * 1024
"""Read between two looks at the head; so much more than the bound may be held."""
_LINGER_S = 0.5
"""For which a refused client may send on, so that it reads the answer before the end."""

_log = logging.getLogger(__name__)


class BoundedHttp(HttpToolsProtocol):
    """Refuses a head of more than ``MAX_HEAD_BYTES`` while it arrives, and what is not HTTP.

    Invariant: ``_head_bytes`` counts what the head has so far, ``_unseen_bytes`` what the parser
    has taken since it last gave something out, and so may keep.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # Any: handed on to uvicorn's
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._unseen_bytes = 0
        self._is_refused = False

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            for start in range(0, len(data), _PIECE_BYTES):
                if self._is_refused:
                    return
                self._feed(data[start : start + _PIECE_BYTES])
        except httptools.HttpParserUpgrade:
            _log.debug("a request to change the protocol is answered as HTTP/1.1")

    def on_message_begin(self) -> None:
        self._unseen_bytes = self._head_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._unseen_bytes = 0
        super().on_body(body)

    def _feed(self, piece: bytes) -> None:
        self._unseen_bytes += len(piece)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            raise
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            self._refuse(cause if isinstance(cause, RequestRefused) else NotHttp())
        except httptools.HttpParserError:
            self._refuse(NotHttp())
        else:
            if self._head_bytes + self._unseen_bytes > MAX_HEAD_BYTES:
                self._refuse(HeadTooLarge(limit=MAX_HEAD_BYTES))

    def _count(self, num_bytes: int) -> None:
        self._unseen_bytes = 0
        self._head_bytes += num_bytes
        if self._head_bytes > MAX_HEAD_BYTES:
            raise HeadTooLarge(limit=MAX_HEAD_BYTES)

    def _refuse(self, error: RequestRefused) -> None:
        """Answer, take nothing more, and close; amid another answer, close alone."""
        self._is_refused = True
        _log.debug("a connection is closed: %s", error)
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn begins without one
        if cycle is not None and not cycle.response_complete:
            self.transport.close()
            return
        status, body = error_body(error)
        content = msgspec.json.encode(body)
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + content)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.close)
