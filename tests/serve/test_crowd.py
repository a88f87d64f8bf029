"""Two hundred streams at once, a third of them given up: every other one says what it says alone,
and no block stays held. Through real processes with each executor, and in one process.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import aclosing

import httpx
import pytest

from octavo.api.frontend.params import OutputKind
from octavo.api.frontend.prompts import TextPrompt
from octavo.config.args import EngineArgs
from octavo.kit.env import read_environment
from octavo.launch.inprocess import InProcess, open_llm
from octavo.resolve.load import load_config
from tests.serve.conftest import StartServer
from tests.serve.crowd import Call, Stream, alone, crowd_of, together
from tests.serve.server import metric

EXECUTORS = ("uniproc", "multiproc")
TINY = crowd_of(45, seed=1, max_tokens=32)
FULL = crowd_of(200, seed=2, max_tokens=20)
FEW_BLOCKS = ("--kv-cache-memory-bytes", "640000")
"""Too little for all at once, so that requests wait and are preempted."""


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_crowd_over_http(executor: str, tiny_model: str, start_server: StartServer) -> None:
    server = start_server(tiny_model, "--executor", executor, *FEW_BLOCKS)

    _check_over_http(server.await_ready(), TINY)

    assert server.stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_crowd_in_one_process(executor: str, tiny_model: str) -> None:
    args = EngineArgs(model=tiny_model, executor=executor, kv_cache_memory_bytes=640_000, threads=1)
    with open_llm(load_config(args, read_environment())) as served:
        _check_in_process(served, TINY)


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("model", ["tiny_model", "demo_model"])
def test_the_full_crowd_over_http(
    model: str, executor: str, request: pytest.FixtureRequest, start_server: StartServer
) -> None:
    path = request.getfixturevalue(model)
    limits = ("--max-model-len", "512", "--threads", "2")
    server = start_server(path, "--executor", executor, *limits)

    _check_over_http(server.await_ready(), FULL)

    assert server.stop() == 0


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("model", ["tiny_model", "demo_model"])
def test_the_full_crowd_in_one_process(
    model: str, executor: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(model)
    args = EngineArgs(model=path, executor=executor, max_model_len=512, threads=2)
    with open_llm(load_config(args, read_environment())) as served:
        _check_in_process(served, FULL)


def _check_over_http(url: str, calls: list[Call]) -> None:
    async def check() -> None:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=url, timeout=600, limits=limits) as client:
            await _check(calls, lambda call: _over_http(client, call))

    asyncio.run(check())
    deadline = time.monotonic() + 10
    while metric(url, "kv_cache_usage_perc") > 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    for gauge in ("kv_cache_usage_perc", "num_requests_running", "num_requests_waiting"):
        assert metric(url, gauge) == 0, gauge


def _check_in_process(served: InProcess, calls: list[Call]) -> None:
    served.run(_check(calls, lambda call: _in_process(served, call)))
    deadline = time.monotonic() + 10
    usage = b""
    while time.monotonic() < deadline:
        lines = served.llm.metrics.render().splitlines()
        [usage] = [line for line in lines if line.startswith(b"octavo:kv_cache_usage_perc{")]
        if float(usage.split()[-1]) == 0:
            return
        time.sleep(0.05)
    raise AssertionError(usage)


async def _check(calls: list[Call], stream: Stream) -> None:
    in_the_crowd = await together(calls, stream)
    staying = [call for call in calls if call.hang_up_after is None]
    by_themselves = await alone(staying, stream)

    assert [text for text in in_the_crowd if text is not None] == by_themselves
    assert len(set(by_themselves)) > len(staying) // 2


async def _over_http(client: httpx.AsyncClient, call: Call) -> AsyncIterator[str]:
    async with client.stream("POST", "/v1/completions", json=call.body()) as response:
        assert response.status_code == 200, await response.aread()
        async for line in response.aiter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                yield json.loads(line[6:])["choices"][0]["text"]


async def _in_process(served: InProcess, call: Call) -> AsyncIterator[str]:
    stream = await served.llm.add(
        TextPrompt(text=call.prompt),
        call.sampling(output_kind=OutputKind.DELTA),
        request_id=f"crowd-{call.seed}",
    )
    async with aclosing(stream):
        async for output in stream:
            yield output.outputs[0].text
