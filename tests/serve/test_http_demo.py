"""The demo model answers through the official client."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from tests.serve.server import Server

pytestmark = pytest.mark.slow

QUESTION = {
    "model": "demo",
    "messages": [{"role": "user", "content": "What is the capital of Japan?"}],
    "temperature": 0,
    "max_tokens": 16,
}


@pytest.fixture(scope="module")
def official(demo_model: str) -> Iterator[openai.OpenAI]:
    flags = ("--port", "0", "--max-model-len", "512", "--served-model-name", "demo")
    server = Server(demo_model, *flags)
    try:
        with openai.OpenAI(api_key="none", base_url=f"{server.await_ready()}/v1") as client:
            yield client
    finally:
        server.kill()


def test_the_capital_of_japan_is_tokyo_whole_and_streamed(official: openai.OpenAI) -> None:
    whole = official.chat.completions.create(**QUESTION)
    parts = official.chat.completions.create(**QUESTION, stream=True)
    text = "".join(part.choices[0].delta.content or "" for part in parts)

    assert "Tokyo" in text
    assert whole.choices[0].message.content == text
    assert whole.choices[0].finish_reason == "stop"
