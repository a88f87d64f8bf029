"""The prompts of one HTTP request: admitted together, counted together, ended together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from hashlib import sha256
from uuid import uuid4

from octavo.api.frontend.outputs import RequestOutput
from octavo.api.frontend.params import SamplingParams
from octavo.api.frontend.prompts import Prompt
from octavo.api.http.schema.answers import PromptTokensDetails, Usage
from octavo.api.http.service import Service, Stream
from octavo.kit.errors import RequestRefused
from octavo.kit.log import request_id

_MAX_UNREAD = 16
"""Outputs of one of several prompts that wait for a slow client."""


@dataclass(frozen=True, slots=True)
class Head:
    """What every answer and event of one request carries."""

    id: str
    model: str
    fingerprint: str
    created: int

    @classmethod
    def of(cls, service: Service, *, prefix: str, model: str) -> Head:
        """A new head; the id holds the request's ``X-Request-Id``, so that logs meet."""
        unique = uuid4().hex
        given = request_id.get()
        name = f"{given}-{unique[:8]}" if given else unique
        return cls(f"{prefix}-{name}", model, fingerprint(service), int(time.time()))


@dataclass(slots=True)
class Tally:
    """Tokens of one request so far."""

    prompt: dict[int, int] = field(default_factory=dict)
    cached: dict[int, int] = field(default_factory=dict)
    completion: int = 0

    def count(self, index: int, output: RequestOutput) -> None:
        """Add what ``output`` of prompt ``index`` brought."""
        self.prompt[index] = len(output.prompt_token_ids)
        self.cached[index] = max(output.num_cached_tokens, self.cached.get(index, 0))
        for part in output.outputs:
            self.completion += len(part.token_ids)

    @property
    def usage(self) -> Usage:
        """The tally in the shape of the OpenAI API."""
        prompt = sum(self.prompt.values())
        cached = PromptTokensDetails(sum(self.cached.values()))
        return Usage(prompt, self.completion, prompt + self.completion, cached)


@dataclass(frozen=True, slots=True)
class Admitted:
    """Streams of admitted prompts, in order."""

    streams: list[Stream]

    @classmethod
    async def of(
        cls,
        service: Service,
        prompts: list[Prompt],
        params: SamplingParams,
        *,
        head: Head,
        priority: int,
        cache_salt: str,
    ) -> Admitted:
        """Admit all of ``prompts`` or none.

        Raises:
            RequestRefused: one was refused; the others have been ended.
        """
        _check_number(len(prompts), params.n, service)
        admitted = cls([])
        try:
            for index, prompt in enumerate(prompts):
                name = head.id if len(prompts) == 1 else f"{head.id}-{index}"
                stream = await service.add(
                    prompt, params, request_id=name, priority=priority, cache_salt=cache_salt
                )
                admitted.streams.append(stream)
        except BaseException:
            await admitted.aclose()
            raise
        return admitted

    async def finals(self) -> list[RequestOutput]:
        """The complete outputs; ends everything where one fails or the wait is cancelled."""
        try:
            return [await stream.final() for stream in self.streams]
        finally:
            await self.aclose()

    async def outputs(self) -> AsyncGenerator[tuple[int, RequestOutput]]:
        """Outputs of all prompts as they come, each with the index of its prompt."""
        if len(self.streams) == 1:
            async for output in self.streams[0]:
                yield 0, output
            return
        queue: asyncio.Queue[_News] = asyncio.Queue(_MAX_UNREAD)
        pumps = [
            asyncio.create_task(_pump(index, stream, queue))
            for index, stream in enumerate(self.streams)
        ]
        try:
            num_open = len(pumps)
            while num_open:
                index, news = await queue.get()
                match news:
                    case RequestOutput():
                        yield index, news
                    case None:
                        num_open -= 1
                    case error:
                        raise error
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def aclose(self) -> None:
        """End what has not ended; idempotent."""
        for stream in self.streams:
            await stream.aclose()


_News = tuple[int, RequestOutput | Exception | None]
"""Index of a prompt, and its output, its error, or its end."""


async def _pump(index: int, stream: Stream, queue: asyncio.Queue[_News]) -> None:
    try:
        async for output in stream:
            await queue.put((index, output))
    except Exception as error:  # noqa: BLE001  whoever reads the queue raises it
        await queue.put((index, error))
    else:
        await queue.put((index, None))


def _check_number(num_prompts: int, n: int, service: Service) -> None:
    """Refuse what could never be admitted together; a client would send it again for ever."""
    config = service.config
    most = config.scheduler.max_num_seqs + config.frontend.max_waiting_requests
    if num_prompts > 1 and num_prompts * n > most:
        raise RequestRefused(
            f"prompt has {num_prompts} prompts with n={n}: this server runs and queues at most "
            f"{most} answers. Send several requests.",
            param="prompt",
            code="invalid_value",
        )


def fingerprint(service: Service) -> str:
    """Names what decides an answer beside the request: version, model, element type."""
    ready, model = service.ready, service.config.model
    version = ready.version if ready else ""
    text = "\0".join((version, model.name, model.dtype, service.config.numerics))
    return "fp_" + sha256(text.encode()).hexdigest()[:12]
