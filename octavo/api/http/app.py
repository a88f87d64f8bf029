"""The HTTP application: routes, middleware, error handlers, OpenAPI document."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from octavo import __version__
from octavo.api.http.auth import BearerAuth
from octavo.api.http.context import RequestContext
from octavo.api.http.errors import octavo_error, routing_error
from octavo.api.http.openapi import Application
from octavo.api.http.routes import admin, chat, completions
from octavo.api.http.service import Service
from octavo.api.http.sse import ClientGone
from octavo.config.frontend import ServerConfig
from octavo.kit.errors import OctavoError

_CLIENT_CLOSED_REQUEST = 499
"""Status of the log line of a client that hung up; nobody receives it."""


def build_app(llm: Service, server: ServerConfig) -> FastAPI:
    """The application that serves ``llm``; starting and closing ``llm`` is the caller's part."""
    app = Application(
        title="octavo",
        version=__version__,
        description="Inference and serving of large language models.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = llm
    app.state.max_body_bytes = server.max_body_bytes
    for routes in (chat, completions, admin):
        app.include_router(routes.router)
    app.add_exception_handler(OctavoError, octavo_error)
    app.add_exception_handler(HTTPException, routing_error)
    app.add_exception_handler(ClientGone, _client_gone)
    app.add_exception_handler(ClientDisconnect, _client_gone)
    if server.api_keys:
        app.add_middleware(BearerAuth, keys=server.api_keys)
    app.add_middleware(RequestContext)
    return app


async def _client_gone(_request: Request, _error: Exception) -> Response:
    return Response(status_code=_CLIENT_CLOSED_REQUEST)
