"""An HTTP server whose service changes from test to test."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from typing import Any

import uvicorn

from octavo.api.http.app import build_app
from octavo.api.http.protocol import BoundedHttp
from octavo.api.http.service import Service
from octavo.config.frontend import ServerConfig
from octavo.config.octavo import OctavoConfig
from octavo.testing.fake_config import fake_config
from octavo.testing.fake_llm import VOCAB_SIZE

ANY_SERVER = ServerConfig(host="", port=0, uds=None, api_keys=(), max_body_bytes=1 << 20)
"""Without keys, and with small bodies."""

_TIMEOUT_S = 10.0


def text_config() -> OctavoConfig:
    """A configuration for ``FakeLLM``, with two names."""
    config = fake_config()
    return replace(
        config,
        model=replace(config.model, max_model_len=4096, vocab_size=VOCAB_SIZE),
        frontend=replace(config.frontend, served_model_names=("fake", "alias")),
    )


class Served:
    """Listens on a port of this machine, in a thread of its own, until ``close``."""

    def __init__(self) -> None:
        self._app: Any = None  # Any: only api.http knows its framework
        config = uvicorn.Config(
            self._current,
            interface="asgi3",
            http=BoundedHttp,
            host="127.0.0.1",
            port=0,
            log_level="warning",
            lifespan="off",
            access_log=False,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._server.serve()))
        self._thread.start()
        deadline = time.monotonic() + _TIMEOUT_S
        while not self._server.started and time.monotonic() < deadline:
            time.sleep(0.005)
        [listener] = self._server.servers[0].sockets
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def show(self, llm: Service, server: ServerConfig = ANY_SERVER) -> None:
        """Serve ``llm`` from now on."""
        self._app = build_app(llm, server)

    def close(self) -> None:
        """Stop listening, and wait for the thread."""
        self._server.should_exit = True
        self._thread.join(_TIMEOUT_S)
        assert not self._thread.is_alive()

    async def _current(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)
