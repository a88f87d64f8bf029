"""Request bodies: bounded, JSON, and checked against a schema whose errors name the field."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, from_json

from octavo.api.http.errors import BodyTooLarge, BodyTooSlow, WrongContentType
from octavo.kit.errors import RequestRefused

T = TypeVar("T", bound=BaseModel)

_BODY_TIMEOUT_S = 60.0
_MAX_SHOWN = 100
_WANTED = {
    "missing": "is required",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "finite_number": "must be a finite number",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "literal_error": "must be one of {expected}",
    "too_long": "must have at most {max_length} items",
    "too_short": "must have at least {min_length} items",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
}


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
            f"the body is {_shown(value)}: must be a JSON object.", code="invalid_json"
        )
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        raise _refusal(error.errors(include_url=False)[0]) from None


def field_path(location: tuple[int | str, ...]) -> str:
    """A place in a body, such as ``messages[0].content``."""
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{step}" if path else step
    return path


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


def _refusal(error: ErrorDetails) -> RequestRefused:
    field = field_path(error["loc"])
    wanted = _WANTED.get(error["type"])
    bounds = {name: _bound(value) for name, value in error.get("ctx", {}).items()}
    text = wanted.format(**bounds) if wanted else error["msg"].lower()
    given = "" if error["type"] == "missing" else f"={_shown(error['input'])}"
    return RequestRefused(f"{field}{given}: {text}.", param=field or None, code="invalid_value")


def _bound(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _shown(value: object) -> str:
    if isinstance(value, (list, dict)) and len(value) > 8:
        return f"a {type(value).__name__} of {len(value)} items"
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."
