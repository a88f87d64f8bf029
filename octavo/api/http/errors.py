"""Every error as a status code and an OpenAI error body."""

from __future__ import annotations

import logging
import math

import msgspec
from fastapi import Request, Response
from starlette.exceptions import HTTPException

from octavo.kit.errors import EngineDied, OctavoError, Overloaded, RequestFailed, RequestRefused

_log = logging.getLogger(__name__)
_STATUS_TEXT = {
    404: "nothing is served at {path}. GET /openapi.json lists the routes.",
    405: "{path} does not take {method}. GET /openapi.json lists the routes.",
}
_STATUS_CODE = {404: "not_found", 405: "method_not_allowed"}


class ErrorDetail(msgspec.Struct):
    """What went wrong, in the shape of the OpenAI API."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(msgspec.Struct):
    """Body of every answer that is not 2xx."""

    error: ErrorDetail


class BodyTooLarge(RequestRefused):
    """The body has more bytes than the server takes."""

    status = 413

    def __init__(self, *, limit: int) -> None:
        super().__init__(
            f"the body has more than {limit} bytes, the most this server takes. "
            "Send less, or raise --max-body-bytes.",
            code="body_too_large",
        )


class BodyTooSlow(RequestRefused):
    """The body did not arrive in time."""

    status = 408

    def __init__(self, *, limit_s: float) -> None:
        super().__init__(
            f"the body did not arrive within {limit_s:g} s. Send it at once.", code="body_timeout"
        )


class HeadTooLarge(RequestRefused):
    """Request line and headers have more bytes than the server takes."""

    status = 431

    def __init__(self, *, limit: int) -> None:
        super().__init__(
            f"the request line and headers have more than {limit} bytes, the most this server "
            "takes. Send fewer or shorter headers.",
            code="headers_too_large",
        )


class NotHttp(RequestRefused):
    """What arrived is not a request of HTTP/1.1."""

    def __init__(self) -> None:
        super().__init__(
            "what arrived is not a valid HTTP/1.1 request. Check the client, and that it speaks "
            "http:// and not https://.",
            code="invalid_http",
        )


class WrongContentType(RequestRefused):
    """The body is not declared as JSON."""

    status = 415

    def __init__(self, given: str) -> None:
        super().__init__(
            f"Content-Type is {given[:100]!r}: must be application/json. "
            "Send the header 'Content-Type: application/json'.",
            code="unsupported_media_type",
        )


class Unauthorized(RequestRefused):
    """The request carries no accepted key."""

    status = 401
    kind = "authentication_error"


class OtherOrigin(RequestRefused):
    """A page of another origin asks for a change of state."""

    status = 403
    kind = "permission_error"

    def __init__(self, origin: str) -> None:
        super().__init__(
            f"Origin is {origin[:100]!r}: pages of other origins may not do this. "
            "Send the request from a program, without Origin.",
            code="cross_origin",
        )


class NotReady(RequestRefused):
    """The same request may succeed after ``retry_after_s``."""

    status = 503
    kind = "service_unavailable_error"

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message, code="not_ready")
        self.retry_after_s = retry_after_s


class Stopping(RequestRefused):
    """The server ends before the answer does; another one may give it."""

    status = 503
    kind = "service_unavailable_error"

    def __init__(self) -> None:
        super().__init__(
            "the server is stopping and has ended this request. Send it again.",
            code="server_stopping",
        )


def error_body(error: BaseException) -> tuple[int, ErrorBody]:
    """Status and body for any exception; what is not ours to tell is not told."""
    match error:
        case RequestRefused():
            code = error.code or "invalid_value"
            detail = ErrorDetail(error.message, error.kind, error.param, code)
            return error.status, ErrorBody(detail)
        case EngineDied():
            return 503, ErrorBody(ErrorDetail(str(error), "server_error", code="engine_died"))
        case RequestFailed():
            return error.status, ErrorBody(
                ErrorDetail(error.message, "server_error", code="request_failed")
            )
        case OctavoError():
            return 500, ErrorBody(ErrorDetail(str(error), "server_error", code="internal_error"))
        case _:
            message = "the server made an error; its log has the cause under this request id"
            return 500, ErrorBody(ErrorDetail(message, "server_error", code="internal_error"))


def error_reply(error: BaseException) -> Response:
    """Answer for an exception that ended a request before its first byte."""
    status, body = error_body(error)
    headers: dict[str, str] = {}
    match error:
        case Overloaded() | NotReady():
            headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
        case Unauthorized():
            headers["WWW-Authenticate"] = 'Bearer realm="octavo"'
        case BodyTooLarge() | BodyTooSlow():
            headers["Connection"] = "close"  # the rest of the body is not read
        case _:
            pass
    return json_reply(body, status=status, headers=headers)


def json_reply(
    body: msgspec.Struct, *, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Answer with ``body``, encoded once."""
    return Response(
        msgspec.json.encode(body), status, headers=headers, media_type="application/json"
    )


async def octavo_error(request: Request, error: Exception) -> Response:
    """Handle what octavo raises on purpose."""
    if not isinstance(error, RequestRefused):
        _log.error("%s %s: %s", request.method, request.url.path, error)
    return error_reply(error)


async def routing_error(request: Request, error: Exception) -> Response:
    """Handle unknown paths and methods."""
    assert isinstance(error, HTTPException)
    path = request.url.path[:200]
    text = _STATUS_TEXT.get(error.status_code, str(error.detail))
    message = text.format(path=path, method=request.method)
    kind = "not_found_error" if error.status_code == 404 else "invalid_request_error"
    code = _STATUS_CODE.get(error.status_code, "invalid_request")
    body = ErrorBody(ErrorDetail(message, kind, code=code))
    return json_reply(body, status=error.status_code, headers=dict(error.headers or {}))
