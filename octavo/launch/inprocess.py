"""Frontend, engine and worker in one process: for tests, offline use and debugging."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from octavo.api.frontend.async_llm import AsyncLLM
from octavo.config.octavo import OctavoConfig
from octavo.contracts.codec import Codec
from octavo.contracts.request import FrontendMessage, Shutdown
from octavo.contracts.worker import WorkerAPI, WorkerInit
from octavo.engine.executor.base import Executor
from octavo.engine.main import run_engine
from octavo.kit.errors import OctavoError
from octavo.kit.extension import ExtensionPoint
from octavo.transport.base import EngineEnd, PeerGone
from octavo.transport.inprocess import channel

_EXECUTORS = ExtensionPoint("octavo.executors", "octavo.engine.executor", "EXECUTOR")
_CLOSE_TIMEOUT_S = 15.0

T = TypeVar("T")


class Closed(OctavoError):
    """Something was asked for after ``close``."""


class InProcess:
    """A model that is served to this process: an event loop on one thread, the engine on another.

    Invariant: both threads run from construction to ``close``.
    """

    llm: AsyncLLM
    """Use it on ``loop`` alone, for instance through ``run``."""

    def __init__(self, config: OctavoConfig, executor: Executor) -> None:
        """Start, and wait until the engine serves.

        Raises:
            OperatorError: the engine cannot start, and the operator can mend it.
            EngineDied: the engine ended for another reason.
        """
        self._frontend, engine_end = channel()
        self.loop = asyncio.new_event_loop()
        self._engine_thread = threading.Thread(
            target=_run_engine, args=(config, engine_end, executor), name="engine", daemon=True
        )
        self._loop_thread = threading.Thread(
            target=self.loop.run_forever, name="frontend", daemon=True
        )
        self._has_llm = False
        self._is_closed = False
        self._loop_thread.start()
        self._engine_thread.start()
        try:
            self.run(self._start(config))
        except BaseException:
            self.close()
            raise

    def run(
        self, work: Coroutine[Any, Any, T]
    ) -> T:  # Any: what a coroutine yields, its own affair
        """Run a coroutine on the event loop and wait for it; Ctrl-C cancels it.

        Raises:
            Closed: ``close`` was called.
        """
        if self._is_closed:
            work.close()
        self.require_open()
        return self._run(work)

    def require_open(self) -> None:
        """Raise ``Closed`` after ``close``."""
        if self._is_closed:
            raise Closed("this LLM is closed and its memory given back. Make a new one.")

    def _run(self, work: Coroutine[Any, Any, T]) -> T:  # Any: as in ``run``
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def close(self) -> None:
        """End what runs, the engine and both threads; idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self._run(self._stop())
        self._engine_thread.join(_CLOSE_TIMEOUT_S)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._loop_thread.join()
        self.loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def _start(self, config: OctavoConfig) -> None:
        self.llm = AsyncLLM(config, self._frontend)
        self._has_llm = True
        await self.llm.start()

    async def _stop(self) -> None:
        with contextlib.suppress(PeerGone):
            await self._frontend.send(Codec[FrontendMessage](FrontendMessage).encode(Shutdown()))
        if self._has_llm:
            await self.llm.close()
        self._frontend.close()


def open_llm(
    config: OctavoConfig,
    *,
    worker: str | Callable[[WorkerInit], WorkerAPI] = "octavo.device.worker:make_worker",
) -> InProcess:
    """Start engine and frontend in this process, and wait until they serve.

    Raises:
        OperatorError: the engine cannot start, and the operator can mend it.
        EngineDied: the engine ended for another reason.
    """
    executor: Executor = _EXECUTORS.load(config.parallel.executor)(config, worker)
    return InProcess(config, executor)


def _run_engine(config: OctavoConfig, channel: EngineEnd, executor: Executor) -> None:
    try:
        run_engine(config, channel, executor)
    finally:
        channel.close()
