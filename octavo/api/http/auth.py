"""Bearer keys, checked before anything of the request is read."""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from octavo.api.http.errors import Unauthorized, error_reply

_OPEN_PATHS = frozenset({"/health", "/ready", "/docs", "/openapi.json"})
"""What a probe asks, and what a browser shows before it can send a key: nothing secret."""


class BearerAuth:
    """Middleware: let in what carries one of the keys, or asks for an open path."""

    def __init__(self, app: ASGIApp, keys: tuple[str, ...]) -> None:
        self._app = app
        self._digests = tuple(_digest(key.encode()) for key in keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        scheme, _, key = Headers(scope=scope).get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._accepts(key.strip()):
            await self._app(scope, receive, send)
            return
        given = "another scheme or key" if scheme else "no Authorization header"
        refusal = Unauthorized(
            f"the request carries {given}: must be 'Authorization: Bearer KEY' with a key of "
            "this server. Set the client's api_key.",
            code="invalid_api_key",
        )
        await error_reply(refusal)(scope, receive, send)

    def _accepts(self, key: str) -> bool:
        """Compare in a time that does not depend on the key, nor on which one matches."""
        digest = _digest(key.encode("utf-8", "surrogateescape"))
        matches = [compare_digest(digest, known) for known in self._digests]
        return any(matches)


def _digest(key: bytes) -> bytes:
    return sha256(key).digest()
