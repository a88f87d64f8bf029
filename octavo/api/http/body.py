"""Request bodies: bounded, JSON, and checked against a schema whose errors name the field."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel
from pydantic_core import from_json

from octavo.api.http.errors import BodyTooLarge, BodyTooSlow, WrongContentType
from octavo.api.http.schema.checking import checked, shown
from octavo.kit.errors import RequestRefused

T = TypeVar("T", bound=BaseModel)

_BODY_TIMEOUT_S = 60.0


def body(schema: type[T]) -> Callable[[Request], Awaitable[T]]:
    """Dependency that reads, parses and checks the body of a route.

    Raises:
        RequestRefused: the body is too large or slow, not JSON, or breaks ``schema``.
    """

    async def checked(request: Request) -> T:
        data = await _read(request, request.app.state.max_body_bytes)
        return parse(schema, data)

    return checked


def parse(schema: type[T], data: bytes) -> T:
    """The checked value of ``data``.

    Raises:
        RequestRefused: ``data`` is not JSON, or breaks ``schema``.
    """
    try:
        value = from_json(data, cache_strings="keys")
    except ValueError as error:
        raise RequestRefused(
            f"the body is not JSON: {error}. Send one JSON object.", code="invalid_json"
        ) from None
    if not isinstance(value, dict):
        raise RequestRefused(
            f"the body is {shown(value)}: must be a JSON object.", code="invalid_json"
        )
    return checked(schema.model_validate, value)


async def _read(request: Request, limit: int) -> bytes:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise WrongContentType(kind)
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length[:20]) > limit:
        raise BodyTooLarge(limit=limit)
    pieces, size = list[bytes](), 0
    try:
        async with asyncio.timeout(_BODY_TIMEOUT_S):
            async for piece in request.stream():
                size += len(piece)
                if size > limit:
                    raise BodyTooLarge(limit=limit)
                pieces.append(piece)
    except TimeoutError:
        raise BodyTooSlow(limit_s=_BODY_TIMEOUT_S) from None
    return b"".join(pieces)
