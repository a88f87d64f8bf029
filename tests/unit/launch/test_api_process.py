"""The HTTP server at its end: the grace, and the last words to whom it does not suffice."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time

import httpx
import pytest

from octavo.api.http.app import build_app
from octavo.contracts.launch import Drain
from octavo.launch.api_process import HttpServer
from octavo.testing.fake_llm import FakeLLM
from octavo.testing.served import ANY_SERVER, text_config

BODY = {"prompt": "x", "max_tokens": 1000}


class Ended:
    """What two requests got from a server that ended while they ran."""

    def __init__(self, whole: httpx.Response, streamed: httpx.Response) -> None:
        self.whole, self.streamed = whole, streamed
        self.waited_for: list[int] = []
        self.elapsed_s = 0.0


def end(llm: FakeLLM, *, grace_s: float) -> Ended:
    """Drain once both requests run."""

    async def run() -> Ended:
        waited_for: list[int] = []
        server = HttpServer(
            build_app(llm, ANY_SERVER), on_start=lambda: None, on_draining=waited_for.append
        )
        listener = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/completions"
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        async with httpx.AsyncClient(timeout=10) as client:
            asked = [
                asyncio.create_task(client.post(url, json=BODY | {"stream": stream}))
                for stream in (False, True)
            ]
            while len(llm.live) < 2:  # noqa: ASYNC110  the fake has no event
                await asyncio.sleep(0.01)
            start = time.monotonic()
            server.drain(Drain(grace_s))
            ended = Ended(*await asyncio.gather(*asked))
        await serving
        ended.elapsed_s = time.monotonic() - start
        ended.waited_for = waited_for
        return ended

    return asyncio.run(run())


def test_requests_that_outlast_the_grace_are_told_so(caplog: pytest.LogCaptureFixture) -> None:
    llm = FakeLLM(text_config(), step_s=0.1)

    with caplog.at_level(logging.INFO):
        ended = end(llm, grace_s=0.3)

    assert ended.whole.status_code == 503
    assert ended.whole.json()["error"]["code"] == "server_stopping"
    *_, error, done, rest = ended.streamed.text.split("\n\n")
    assert json.loads(error.removeprefix("data: "))["error"]["code"] == "server_stopping"
    assert (done, rest) == ("data: [DONE]", "")
    assert '"text"' in ended.streamed.text
    assert ended.waited_for == [2]
    assert ended.elapsed_s < 2
    assert not llm.live
    assert not [record for record in caplog.records if record.exc_info]


def test_requests_within_the_grace_finish() -> None:
    llm = FakeLLM(text_config(), step_s=0.01)

    ended = end(llm, grace_s=20)

    assert ended.whole.json()["choices"][0]["text"] == llm.answer
    assert "server_stopping" not in ended.streamed.text
    assert ended.streamed.text.endswith("data: [DONE]\n\n")
    assert ended.elapsed_s < 5
