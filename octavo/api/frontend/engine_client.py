"""The frontend's end of the engine channel."""

from __future__ import annotations

import asyncio
import itertools
from typing import assert_never

import msgspec

from octavo.contracts.codec import Codec
from octavo.contracts.output import (
    EngineDead,
    EngineMessage,
    EngineOutputs,
    EngineReady,
    UtilityResult,
)
from octavo.contracts.request import Abort, EngineRequest, FrontendMessage, UtilityCall
from octavo.kit.errors import EngineDied, RequestRefused
from octavo.transport.base import FrontendEnd, PeerGone


class EngineClient:
    """Messages in place of frames; drops what an engine of an older generation still says."""

    def __init__(self, channel: FrontendEnd) -> None:
        self._channel = channel
        self._out: Codec[FrontendMessage] = Codec(FrontendMessage)
        self._in: Codec[EngineMessage] = Codec(EngineMessage)
        self._generation = 0
        self._call_ids = itertools.count()
        self._calls: dict[int, asyncio.Future[int | str | bool | None]] = {}

    async def add(self, request: EngineRequest) -> None:
        """Start a request.

        Raises:
            EngineDied: nobody is there to run it.
        """
        await self._send(request)

    async def abort(self, engine_ids: list[str]) -> None:
        """Stop requests; those that have finished are ignored."""
        if engine_ids:
            await self._send(Abort(engine_ids))

    async def call(self, method: str, args: list[int | str | bool]) -> int | str | bool | None:
        """Call a control method of the engine and wait for its answer.

        Raises:
            RequestRefused: the engine has no such method, or it does not take ``args``.
            EngineDied: the engine ended before it answered.
        """
        call_id = next(self._call_ids)
        answer: asyncio.Future[int | str | bool | None] = asyncio.get_running_loop().create_future()
        self._calls[call_id] = answer
        try:
            await self._send(UtilityCall(call_id, method, args))
            return await answer
        finally:
            del self._calls[call_id]

    async def receive(self) -> EngineOutputs | EngineReady | EngineDead:
        """Wait for the next message that is not out of date.

        Raises:
            EngineDied: the channel broke, or carried something that is no message.
        """
        while True:
            message = await self._receive_any()
            match message:
                case EngineOutputs():
                    if message.generation == self._generation:
                        if message.utility is not None:
                            self._answer(message.utility)
                        return message
                case EngineReady():
                    self._generation = message.generation
                    return message
                case EngineDead():
                    return message
                case _:
                    assert_never(message)

    def fail_calls(self, error: EngineDied) -> None:
        """End every open call: no answer will come."""
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(error)

    def close(self) -> None:
        """Release the channel; idempotent."""
        self._channel.close()

    async def _send(self, message: FrontendMessage) -> None:
        try:
            await self._channel.send(self._out.encode(message))
        except PeerGone as error:
            raise EngineDied(str(error)) from error

    async def _receive_any(self) -> EngineMessage:
        try:
            return self._in.decode(await self._channel.receive())
        except PeerGone as error:
            raise EngineDied(str(error)) from error
        except (msgspec.MsgspecError, ValueError) as error:
            raise EngineDied(f"the engine sent what is no message: {error}") from error

    def _answer(self, result: UtilityResult) -> None:
        answer = self._calls.get(result.call_id)
        if answer is None or answer.done():
            return
        if result.error is None:
            answer.set_result(result.value)
        else:
            answer.set_exception(RequestRefused(result.error, param="method"))
