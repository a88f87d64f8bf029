from __future__ import annotations

from dataclasses import replace

import pytest

from octavo.entrypoints.cli.talk import RemoteTalk
from octavo.kit.errors import OctavoError, OperatorError, RequestRefused
from octavo.testing.fake_llm import FakeLLM
from octavo.testing.served import ANY_SERVER, Served
from tests.unit.api.http.reading import eventually

QUESTION = {"messages": [{"role": "user", "content": "x"}]}


def talk_to(url: str, model: str | None = None, key: str | None = None) -> RemoteTalk:
    return RemoteTalk(url, model=model, api_key=key)


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_a_url_is_taken_with_or_without_its_version(url: str, llm: FakeLLM, suffix: str) -> None:
    talk = talk_to(url + suffix)

    assert talk.name == "fake"
    assert "".join(piece.text for piece in talk.chat(QUESTION)) == llm.answer
    talk.close()


def test_a_url_may_leave_out_http(url: str, llm: FakeLLM) -> None:
    talk = talk_to(url.removeprefix("http://"))

    assert talk.name == "fake"
    talk.close()


def test_pieces_count_tokens_and_say_how_it_ended(url: str, llm: FakeLLM) -> None:
    talk = talk_to(url)
    pieces = list(talk.complete({"prompt": "ab", "max_tokens": 5}))
    talk.close()

    assert "".join(piece.text for piece in pieces) == llm.answer[:5]
    assert (pieces[-1].num_prompt_tokens, pieces[-1].num_tokens) == (2, 5)
    assert [piece.finish_reason for piece in pieces if piece.finish_reason] == ["length"]


def test_leaving_early_ends_the_answer_at_the_server(url: str, llm: FakeLLM) -> None:
    llm.answer, llm.step_s = "x" * 1000, 0.01
    talk = talk_to(url)
    pieces = talk.complete({"prompt": "ab", "max_tokens": 1000})

    next(pieces)
    pieces.close()

    assert eventually(lambda: len(llm.aborted) == 1)
    talk.close()


def test_a_refusal_of_the_server_is_passed_on(url: str) -> None:
    talk = talk_to(url)

    with pytest.raises(RequestRefused, match="temperature=-1"):
        list(talk.chat({**QUESTION, "temperature": -1}))
    talk.close()


def test_an_error_inside_a_stream_is_raised(url: str, llm: FakeLLM) -> None:
    llm.failure = ValueError("x")
    talk = talk_to(url)

    with pytest.raises(OctavoError, match="the server made an error"):
        list(talk.chat(QUESTION))
    talk.close()


def test_a_key_is_sent(running: Served, llm: FakeLLM) -> None:
    running.show(llm, replace(ANY_SERVER, api_keys=("secret",)))

    talk_to(running.url, key="secret").close()
    with pytest.raises(RequestRefused, match="Authorization"):
        talk_to(running.url)


def test_a_server_that_speaks_another_language_is_named(url: str) -> None:
    with pytest.raises(RequestRefused, match="nothing is served"):
        talk_to(url + "/elsewhere")


@pytest.mark.parametrize("wrong", ["localhost:1", "ftp://x", "http://", "http://[::1"])
def test_a_url_that_is_none_is_one_line_for_the_operator(wrong: str) -> None:
    with pytest.raises(OperatorError):
        talk_to(wrong)
