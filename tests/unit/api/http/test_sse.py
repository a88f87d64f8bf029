from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

import httpx
import pytest

from octavo.api.http.sse import ClientGone, EventStream, unless_gone
from octavo.testing.fake_llm import FakeLLM
from tests.unit.api.http.reading import eventually

BODY = {"prompt": "x", "max_tokens": 1000}


class Connection:
    """Both ends of one answer: what was sent, and when the client hangs up."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.gone = asyncio.Event()

    async def receive(self) -> dict[str, object]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, object]) -> None:
        self.sent.append(message.get("body", b"start"))


class Source:
    """Events with pauses, and whether they were closed."""

    def __init__(self, *pauses_s: float) -> None:
        self.pauses_s = pauses_s
        self.is_closed = False

    async def events(self) -> AsyncGenerator[bytes]:
        for number, pause_s in enumerate(self.pauses_s):
            await asyncio.sleep(pause_s)
            yield b"%d" % number

    async def close(self) -> None:
        self.is_closed = True


def test_a_quiet_stream_is_kept_alive() -> None:
    async def run() -> list[bytes]:
        connection, source = Connection(), Source(0.0, 0.25)
        stream = EventStream(source.events(), source.close, keep_alive_s=0.1)
        await stream({}, connection.receive, connection.send)
        assert source.is_closed
        return connection.sent

    sent = asyncio.run(run())

    assert sent[:2] == [b"start", b"0"]
    assert sent.count(b": keep-alive\n\n") in (1, 2)
    assert sent[-2:] == [b"1", b""]


def test_a_busy_stream_has_no_keep_alive() -> None:
    async def run() -> list[bytes]:
        connection, source = Connection(), Source(*[0.01] * 30)
        stream = EventStream(source.events(), source.close, keep_alive_s=0.1)
        await stream({}, connection.receive, connection.send)
        return connection.sent

    assert b": keep-alive\n\n" not in asyncio.run(run())


def test_a_client_that_hangs_up_ends_the_stream_and_closes_its_source() -> None:
    async def run() -> None:
        connection, source = Connection(), Source(0.0, 100.0)
        stream = EventStream(source.events(), source.close)
        task = asyncio.create_task(stream({}, connection.receive, connection.send))
        await asyncio.sleep(0.05)
        assert connection.sent[-1] == b"0"
        connection.gone.set()
        await asyncio.wait_for(task, 1)
        assert source.is_closed

    asyncio.run(run())


def test_work_for_a_client_that_hangs_up_is_cancelled() -> None:
    async def run() -> None:
        connection, was_cancelled = Connection(), asyncio.Event()

        async def work() -> None:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                was_cancelled.set()
                raise

        asyncio.get_running_loop().call_later(0.02, connection.gone.set)
        with pytest.raises(ClientGone):
            await unless_gone(connection.receive, work())
        assert was_cancelled.is_set()

    asyncio.run(run())


def test_work_that_fails_raises_its_own_error() -> None:
    async def work() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        asyncio.run(unless_gone(Connection().receive, work()))


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
@pytest.mark.parametrize("kind", ["whole", "stream"])
def test_a_request_stops_within_a_step_of_its_clients_leaving(
    client: httpx.Client, llm: FakeLLM, path: str, kind: str
) -> None:
    llm.answer, llm.step_s = "x" * 1000, 0.02
    body = {"messages": [{"role": "user", "content": "x"}], "stream": kind == "stream", **BODY}

    hang_up_after(client, path, body, lambda: llm.num_generated > 3)

    assert eventually(lambda: len(llm.aborted) == 1, within_s=0.5)
    assert llm.live == set()
    generated = llm.num_generated
    assert not eventually(lambda: llm.num_generated > generated + 1, within_s=0.1)


def test_every_prompt_of_a_request_stops_when_its_client_leaves(
    client: httpx.Client, llm: FakeLLM
) -> None:
    llm.answer, llm.step_s = "x" * 1000, 0.02
    body = {**BODY, "prompt": ["a", "b", "c"], "stream": True}

    with client.stream("POST", "/v1/completions", json=body) as answer:
        next(answer.iter_raw())

    assert eventually(lambda: len(llm.aborted) == 3, within_s=0.5)


def hang_up_after(
    client: httpx.Client, path: str, body: dict[str, object], is_time: Callable[[], bool]
) -> None:
    """Send a request, and leave when ``is_time``, or when nothing comes for a while."""
    with (
        contextlib.suppress(httpx.ReadTimeout),
        client.stream("POST", path, json=body, timeout=0.15) as answer,
    ):
        for _ in answer.iter_raw():
            if is_time():
                return
