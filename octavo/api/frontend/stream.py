"""What a caller holds while a request runs."""

from __future__ import annotations

from typing import Protocol, Self

from octavo.api.frontend.fan_out import LiveRequest
from octavo.api.frontend.outputs import RequestOutput


class Aborter(Protocol):
    """Ends a request early."""

    async def __call__(self, live: LiveRequest) -> None:
        """End every open answer of ``live``, here and in the engine."""


class RequestStream:
    """Outputs of one request. A slow reader gets fewer, larger ones; none is lost.

    Read it from one task, to its end, or call ``aclose``.
    """

    def __init__(self, live: LiveRequest, abort: Aborter) -> None:
        self._live = live
        self._abort = abort
        self._is_over = False

    @property
    def request_id(self) -> str:
        return self._live.request_id

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RequestOutput:
        """Return what is new.

        Raises:
            RequestRefused: the engine found the request wrong.
            RequestFailed: the request broke while it ran.
            EngineDied: the engine ended.
        """
        while not self._is_over:
            output = self._live.take()
            if output is not None:
                self._is_over = output.finished
                return output
            if self._live.error is not None:
                self._is_over = True
                raise self._live.error
            await self._live.news.wait()
            self._live.news.clear()
        raise StopAsyncIteration

    async def final(self) -> RequestOutput:
        """Wait for the end and return everything that was not read before.

        Raises:
            As ``__anext__``. If the waiting task is cancelled, the request is aborted.
        """
        try:
            while not self._live.is_finished:
                await self._live.news.wait()
                self._live.news.clear()
            return await anext(self)
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Stop: abort the request unless it has finished. Idempotent."""
        self._is_over = True
        if not self._live.is_finished:
            await self._abort(self._live)
