"""``octavo bench serve``: how long until the first and between tokens of a server under load."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from random import Random
from typing import NoReturn

import httpx
import msgspec
from tqdm import tqdm

from octavo.config.cli import parse
from octavo.entrypoints.cli.bench_report import (
    Figures,
    ReportArgs,
    distribution,
    random_prompts,
    require_positive,
)
from octavo.entrypoints.cli.talk import RemoteTalk, base_url
from octavo.kit.env import read_environment
from octavo.kit.errors import OctavoError

_ABOUT = "How long until the first and between tokens of a server under load?"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeLoadArgs:
    """The server and the load."""

    url: str = "http://127.0.0.1:8000"
    """Server with the OpenAI API."""

    model: str | None = None
    """Name to ask for; the first that the server lists where nothing is given."""

    api_key: str | None = None
    """Bearer key. Also OCTAVO_API_KEY."""

    num_prompts: int = 100
    """Requests."""

    request_rate: float = float("inf")
    """Mean arrivals per second, at random (Poisson); inf sends all at once. [1/s]"""

    max_concurrency: int | None = None
    """Most requests in flight; others wait at this side. [requests]"""

    input_len: int = 128
    """Length of each prompt, drawn at random. [tokens]"""

    output_len: int = 128
    """Length of each answer. [tokens]"""

    num_warmups: int = 1
    """Requests before the measurement."""

    temperature: float = 0.0
    """0 takes the likeliest token."""

    seed: int = 0
    """Seed of prompts and arrivals."""


@dataclass(slots=True)
class Timing:
    """One request, as its client saw it."""

    started: float
    times: list[float] = field(default_factory=list)
    """When each event with text came."""
    num_prompt_tokens: int = 0
    num_tokens: int = 0
    error: str | None = None
    ended: float = 0.0


def run(argv: list[str]) -> int:
    """Measure, report, and return the exit code: 1 where no request succeeded."""
    load, report = parse(argv, ServeLoadArgs, ReportArgs, prog="octavo bench serve", about=_ABOUT)
    require_positive(
        num_prompts=load.num_prompts,
        input_len=load.input_len,
        output_len=load.output_len,
        request_rate=load.request_rate,
        max_concurrency=load.max_concurrency,
    )
    api_key = load.api_key or read_environment().api_key
    talk = RemoteTalk(load.url, model=load.model, api_key=api_key)
    talk.close()
    timings, elapsed = asyncio.run(_Load(load, model=talk.name, api_key=api_key).measure())
    good = [timing for timing in timings if timing.error is None]
    report.report("serve", figures(timings, elapsed))
    if not good:
        raise OctavoError(f"every request failed; the first one said: {timings[0].error}")
    return 0


def figures(timings: list[Timing], elapsed_s: float) -> Figures:
    """Rates over all, and distributions over the requests that succeeded."""
    good = [timing for timing in timings if timing.error is None and timing.times]
    num_output = sum(timing.num_tokens for timing in good)
    num_input = sum(timing.num_prompt_tokens for timing in good)
    gaps = [
        later - earlier
        for timing in good
        for earlier, later in zip(timing.times, timing.times[1:], strict=False)
    ]
    return {
        "completed": len(good),
        "failed": len(timings) - len(good),
        "duration_s": elapsed_s,
        "total_input_tokens": num_input,
        "total_output_tokens": num_output,
        "request_throughput_per_s": len(good) / elapsed_s,
        "output_throughput_per_s": num_output / elapsed_s,
        "total_token_throughput_per_s": (num_input + num_output) / elapsed_s,
        **distribution("ttft", [timing.times[0] - timing.started for timing in good]),
        **distribution(
            "tpot",
            [
                (timing.times[-1] - timing.times[0]) / (timing.num_tokens - 1)
                for timing in good
                if timing.num_tokens > 1
            ],
        ),
        **distribution("itl", gaps),
        **distribution("e2el", [timing.ended - timing.started for timing in good]),
    }


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Choice(msgspec.Struct):
    text: str = ""


class _Event(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: msgspec.Raw | None = None


_events = msgspec.json.Decoder(_Event)


class _Load:
    """Sends the requests of one benchmark."""

    def __init__(self, load: ServeLoadArgs, *, model: str, api_key: str | None) -> None:
        self._load = load
        self._model = model
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        most = load.max_concurrency
        self._turns = asyncio.Semaphore(most) if most is not None else None

    async def measure(self) -> tuple[list[Timing], float]:
        """Timings of every request, and the time from the first start to the last end."""
        load = self._load
        count = load.num_warmups + load.num_prompts
        prompts = random_prompts(count, load.input_len, vocab_size=2**31, seed=load.seed)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        base = base_url(load.url)
        async with httpx.AsyncClient(
            base_url=base, headers=self._headers, timeout=None, limits=limits
        ) as client:
            for prompt in prompts[: load.num_warmups]:
                await self._timed(client, prompt)
            with tqdm(total=load.num_prompts, unit="req") as bar:
                started = time.perf_counter()
                tasks = [
                    asyncio.create_task(self._shown(client, prompt, bar))
                    async for prompt in self._arrivals(prompts[load.num_warmups :])
                ]
                timings = await asyncio.gather(*tasks)
                return list(timings), time.perf_counter() - started

    async def _arrivals(self, prompts: list[list[int]]) -> AsyncIterator[list[int]]:
        rng, due = Random(self._load.seed), time.perf_counter()
        for prompt in prompts:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            yield prompt
            due += rng.expovariate(self._load.request_rate)

    async def _shown(
        self, client: httpx.AsyncClient, prompt: list[int], bar: tqdm[NoReturn]
    ) -> Timing:
        async with AsyncExitStack() as stack:
            if self._turns is not None:
                await stack.enter_async_context(self._turns)
            timing = await self._timed(client, prompt)
        bar.update()
        return timing

    async def _timed(self, client: httpx.AsyncClient, prompt: list[int]) -> Timing:
        timing = Timing(time.perf_counter())
        body = {
            "model": self._model,
            "prompt": prompt,
            "max_tokens": self._load.output_len,
            "ignore_eos": True,
            "temperature": self._load.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        try:
            async with client.stream("POST", "/v1/completions", json=body) as answer:
                if answer.is_error:
                    await answer.aread()
                    timing.error = f"{answer.status_code} {answer.text[:200]}"
                async for line in answer.aiter_lines():
                    _take(line, timing)
        except (httpx.HTTPError, msgspec.MsgspecError) as error:
            timing.error = f"{type(error).__name__} {error}"
        timing.ended = time.perf_counter()
        return timing


def _take(line: str, timing: Timing) -> None:
    if not line.startswith("data: ") or line == "data: [DONE]":
        return
    now = time.perf_counter()
    event = _events.decode(line[6:])
    if event.error is not None:
        timing.error = bytes(event.error).decode()
    if event.choices and event.choices[0].text:
        timing.times.append(now)
    if event.usage is not None:
        timing.num_prompt_tokens = event.usage.prompt_tokens
        timing.num_tokens = event.usage.completion_tokens
