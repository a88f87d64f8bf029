"""Many prompts in one call: bounded hand-over, order, progress."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Self

from tqdm import tqdm

from octavo.api.frontend.async_llm import AsyncLLM
from octavo.api.frontend.outputs import RequestOutput
from octavo.api.frontend.params import OutputKind, SamplingParams
from octavo.api.frontend.prompts import Prompt
from octavo.api.frontend.stream import RequestStream
from octavo.kit.errors import Overloaded

_WAITING_PER_ROW = 3
"""Requests handed over beyond the running ones, so that no step waits for the next."""


async def given(prompt: Prompt) -> Prompt:
    """A prompt that is there already."""
    return prompt


@dataclass(frozen=True, slots=True)
class Job:
    """One prompt, which may still have to be made, and how to continue it."""

    prompt: Coroutine[None, None, Prompt]
    params: SamplingParams


class Progress:
    """A bar of requests, with the rates of prompt and output tokens."""

    def __init__(self, total: int, *, is_shown: bool) -> None:
        self._bar = tqdm(total=total, unit="req", dynamic_ncols=True, disable=not is_shown)
        self._started = time.monotonic()
        self._num_prompt = self._num_output = 0

    def add(self, output: RequestOutput) -> None:
        """Count a finished request."""
        self._num_prompt += len(output.prompt_token_ids)
        self._num_output += sum(len(answer.token_ids) for answer in output.outputs)
        elapsed = max(1e-9, time.monotonic() - self._started)
        read, written = self._num_prompt / elapsed, self._num_output / elapsed
        self._bar.set_postfix_str(f"in {read:.0f} tok/s, out {written:.0f} tok/s", refresh=False)
        self._bar.update()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()


@dataclass(slots=True)
class Batch:
    """Runs jobs with a bounded number of them handed over at once."""

    llm: AsyncLLM
    jobs: list[Job]
    progress: Progress
    _num_running: int = 0
    _freed: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> list[RequestOutput]:
        """All outputs, in order. The first error ends the others."""
        scheduler, frontend = self.llm.config.scheduler, self.llm.config.frontend
        most = scheduler.max_num_seqs + min(
            frontend.max_waiting_requests, _WAITING_PER_ROW * scheduler.max_num_seqs
        )
        widest = max((job.params.n for job in self.jobs), default=1)
        turns = asyncio.Semaphore(max(1, most // max(1, widest)))
        tasks = [
            asyncio.create_task(self._one(index, job, turns)) for index, job in enumerate(self.jobs)
        ]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for job in self.jobs:
                job.prompt.close()

    async def _one(self, index: int, job: Job, turns: asyncio.Semaphore) -> RequestOutput:
        params = replace(job.params, output_kind=OutputKind.FINAL)
        async with turns:
            stream = await self._add(await job.prompt, params, f"offline-{index}")
            self._num_running += 1
            try:
                output = await stream.final()
            finally:
                self._num_running -= 1
                self._freed.set()
                self._freed = asyncio.Event()
        self.progress.add(output)
        return output

    async def _add(self, prompt: Prompt, params: SamplingParams, request_id: str) -> RequestStream:
        """Hand over; where prompts of others take all the room, wait until one has ended."""
        while True:
            freed = self._freed
            try:
                return await self.llm.add(prompt, params, request_id=request_id)
            except Overloaded:
                if not self._num_running:
                    raise
                await freed.wait()
