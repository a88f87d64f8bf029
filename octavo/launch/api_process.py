"""Process entry of the API: the HTTP application on a socket that the root has bound."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Callable, Iterator

import uvicorn
import uvloop

from octavo.api.frontend.async_llm import AsyncLLM
from octavo.api.http.app import build_app
from octavo.api.http.protocol import BoundedHttp
from octavo.contracts.codec import Codec
from octavo.contracts.launch import ChildFailed, Drain, Draining, Reached, Serving, StartChild
from octavo.contracts.request import FrontendMessage, Shutdown
from octavo.kit.errors import OctavoError
from octavo.launch.processes import Parent, run_child
from octavo.transport.base import PeerGone
from octavo.transport.rendezvous import remove_rendezvous
from octavo.transport.zmq import ZmqFrontend

_KEEP_ALIVE_S = 60
_TICK_S = 1.0
_LOOK_S = 0.05
_FAREWELL_S = 1.0
"""For the last words to clients whose requests outlast the grace."""


def main(arguments: list[str]) -> int:
    """Serve HTTP until the root says ``Drain``, or ends."""
    listener = socket.socket(fileno=int(arguments[1]))
    with listener, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return run_child(
            "api", arguments, lambda parent, start: runner.run(_serve(parent, start, listener))
        )


async def _serve(parent: Parent, start: StartChild, listener: socket.socket) -> ChildFailed | None:
    channel = ZmqFrontend(start.channel)
    llm = AsyncLLM(start.config, channel)
    server = HttpServer(
        build_app(llm, start.server),
        on_start=lambda: parent.tell(Reached("http")),
        on_draining=lambda count: parent.tell(Draining(count)),
    )
    loop = asyncio.get_running_loop()
    parent.watch(
        on_drain=lambda drain: loop.call_soon_threadsafe(server.drain, drain),
        farewell=lambda: remove_rendezvous(start.channel),
    )
    starting = asyncio.create_task(_report_ready(llm, parent))
    try:
        await server.serve(sockets=[listener])
    finally:
        starting.cancel()
        with contextlib.suppress(PeerGone):
            await channel.send(Codec[FrontendMessage](FrontendMessage).encode(Shutdown()))
        await llm.close()
    return None


async def _report_ready(llm: AsyncLLM, parent: Parent) -> None:
    with contextlib.suppress(OctavoError):  # the engine process tells the root itself
        parent.tell(Serving(await llm.start(), llm.has_chat))


class HttpServer(uvicorn.Server):
    """uvicorn, woken by an event rather than ten times a second, and stopped by ``drain``."""

    def __init__(
        self, app: object, *, on_start: Callable[[], None], on_draining: Callable[[int], None]
    ) -> None:
        config = uvicorn.Config(
            app,  # type: ignore[arg-type]  # an ASGI application of any framework
            http=BoundedHttp,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
        )
        super().__init__(config)
        self._on_start = on_start
        self._on_draining = on_draining
        self._grace_s = 0.0
        self._stop = asyncio.Event()

    def drain(self, drain: Drain) -> None:
        """Stop accepting, let running requests finish, then return from ``serve``."""
        self._grace_s = drain.grace_s
        self.should_exit = True
        self._stop.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_start()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # renews the date of answers
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), _TICK_S)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wait for running requests, and end what has not finished within the grace."""
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        self._on_draining(len(state.tasks))
        if not await self._emptied(self._grace_s):
            for task in list(state.tasks):
                task.cancel()  # the request tells its client
            await self._emptied(_FAREWELL_S)

    async def _emptied(self, within_s: float) -> bool:
        """Whether requests and connections end in time; an answer is sent once both have."""
        state = self.server_state
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while state.tasks or state.connections:  # noqa: ASYNC110  uvicorn has no event
                    await asyncio.sleep(_LOOK_S)
        return not (state.tasks or state.connections)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: the root gets them, and says ``Drain``."""
        yield


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
