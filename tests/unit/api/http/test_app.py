from __future__ import annotations

import httpx
import openai

from octavo.testing.fake_llm import FakeLLM

CHAT = {"model": "fake", "messages": [{"role": "user", "content": "Capital?"}]}


def test_the_openai_client_reads_whole_and_streamed_chats(
    client: httpx.Client, llm: FakeLLM
) -> None:
    official = openai.OpenAI(api_key="none", base_url="http://o/v1", http_client=client)

    whole = official.chat.completions.create(**CHAT)
    streamed = official.chat.completions.create(**CHAT, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in streamed)

    assert whole.choices[0].message.content == llm.answer == text


def test_the_openai_client_reads_whole_and_streamed_completions(
    client: httpx.Client, llm: FakeLLM
) -> None:
    official = openai.OpenAI(api_key="none", base_url="http://o/v1", http_client=client)

    whole = official.completions.create(model="fake", prompt="x", max_tokens=99)
    streamed = official.completions.create(model="fake", prompt="x", max_tokens=99, stream=True)

    assert whole.choices[0].text == llm.answer
    assert "".join(chunk.choices[0].text for chunk in streamed) == llm.answer


def test_the_openai_client_lists_models(client: httpx.Client) -> None:
    official = openai.OpenAI(api_key="none", base_url="http://o/v1", http_client=client)

    assert [model.id for model in official.models.list()] == ["fake", "alias"]
    assert official.models.retrieve("alias").id == "alias"
