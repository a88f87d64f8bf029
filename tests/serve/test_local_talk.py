"""Chat and completion with a tiny model in this process, as the terminal uses them."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from octavo.config.args import EngineArgs
from octavo.entrypoints.cli.main import main
from octavo.entrypoints.cli.talk import Talk, open_talk
from octavo.kit.errors import RequestRefused

FIELDS = {"temperature": 0, "ignore_eos": True}
QUESTION = {"messages": [{"role": "user", "content": "one"}], **FIELDS}


@pytest.fixture(scope="module")
def talk(tiny_model: str) -> Iterator[Talk]:
    args = EngineArgs(model=tiny_model, threads=1, served_model_name=("tiny",))
    talk = open_talk(args, url=None, api_key=None)
    yield talk
    talk.close()


def test_pieces_make_the_answer_and_count_its_tokens(talk: Talk) -> None:
    pieces = list(talk.chat({**QUESTION, "max_tokens": 9}))

    assert talk.name == "tiny"
    assert pieces[-1].num_tokens == 9
    assert pieces[-1].finish_reason == "length"
    assert pieces[-1].num_prompt_tokens == len("<user>one\n<assistant>")
    assert "".join(piece.text for piece in pieces)


def test_a_closed_answer_is_ended_and_the_next_one_is_the_same(talk: Talk) -> None:
    whole = "".join(piece.text for piece in talk.complete({"prompt": "sea", **FIELDS}))
    left = talk.complete({"prompt": "sea", "max_tokens": 400, **FIELDS})
    next(left)
    left.close()

    again = "".join(piece.text for piece in talk.complete({"prompt": "sea", **FIELDS}))

    assert again == whole


def test_a_refusal_is_raised_before_the_first_piece(talk: Talk) -> None:
    with pytest.raises(RequestRefused, match="max_tokens"):
        talk.chat({**QUESTION, "max_tokens": 10**6})


def test_a_conversation_from_a_pipe_is_answered(
    tiny_model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("one\n/params max_tokens 3\ntwo\n"))

    assert main(["chat", tiny_model, "--threads", "1", "--max-tokens", "4"]) == 0

    assert "max_tokens 3" in capsys.readouterr().out
