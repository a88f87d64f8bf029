from __future__ import annotations

import json
from pathlib import Path

import pytest

from octavo.entrypoints.cli.conversation import Conversation, Stop
from octavo.kit.errors import OctavoError, RequestRefused


@pytest.fixture
def talked() -> Conversation:
    """One question and its answer."""
    conversation = Conversation(system="Be brief.")
    conversation.command("first")
    conversation.answered("one")
    return conversation


def test_a_line_becomes_the_question(talked: Conversation) -> None:
    assert talked.command("second") is None

    assert talked.has_question
    assert talked.messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": "second"},
    ]


@pytest.mark.parametrize("line", ["", "   ", "\t"])
def test_an_empty_line_asks_nothing(talked: Conversation, line: str) -> None:
    assert talked.command(line) is None
    assert not talked.has_question


def test_reset_keeps_the_instructions(talked: Conversation) -> None:
    talked.command("/reset")

    assert talked.messages == [{"role": "system", "content": "Be brief."}]


def test_undo_takes_back_question_and_answer(talked: Conversation) -> None:
    talked.command("/undo")

    assert talked.turns == []
    assert talked.command("/undo") == "there is nothing to take back"


def test_retry_asks_the_last_question_again(talked: Conversation) -> None:
    assert talked.command("/retry") is None

    assert talked.has_question
    assert talked.messages[-1]["content"] == "first"


def test_an_answer_that_never_began_takes_its_question_with_it(talked: Conversation) -> None:
    talked.command("second")
    talked.answered("")

    assert talked.messages[-1]["content"] == "one"


def test_system_sets_and_removes_instructions(talked: Conversation) -> None:
    talked.command("/system Be long.")
    assert talked.messages == [{"role": "system", "content": "Be long."}]

    talked.command("/system")
    assert talked.messages == []


def test_parameters_are_set_shown_and_given_back(talked: Conversation) -> None:
    assert talked.command("/params temperature 0.5") == "temperature 0.5"
    assert talked.command("/params stop END") == "stop END"
    assert talked.command("/params") == "temperature 0.5\nstop END"
    assert talked.body()["temperature"] == 0.5

    talked.command("/params temperature")
    assert talked.params == {"stop": "END"}


@pytest.mark.parametrize("line", ["temperature -1", "temperature hot", "top_p 2", "max_tokens 0"])
def test_a_parameter_out_of_bounds_keeps_its_old_value(talked: Conversation, line: str) -> None:
    talked.command("/params temperature 0.5")

    with pytest.raises(RequestRefused):
        talked.command(f"/params {line}")

    assert talked.params == {"temperature": 0.5}


def test_unknown_names_are_told(talked: Conversation) -> None:
    assert "/help" in talked.command("/nothing")
    assert "temperature" in talked.command("/params heat 5")


def test_help_names_every_command(talked: Conversation) -> None:
    text = talked.command("/help")

    for name in ("help", "reset", "system", "undo", "retry", "params", "save", "exit"):
        assert f"/{name}" in text


def test_save_writes_a_request(talked: Conversation, tmp_path: Path) -> None:
    talked.command("/params seed 7")
    talked.command(f"/save {tmp_path / 'talk.json'}")

    saved = json.loads((tmp_path / "talk.json").read_text())
    assert saved["messages"] == talked.messages
    assert saved["seed"] == 7


def test_a_file_that_cannot_be_written_is_told(talked: Conversation, tmp_path: Path) -> None:
    with pytest.raises(OctavoError, match="was not written"):
        talked.command(f"/save {tmp_path / 'no' / 'talk.json'}")
    assert "needs" in talked.command("/save")


@pytest.mark.parametrize("line", ["/exit", "/quit"])
def test_exit_stops(talked: Conversation, line: str) -> None:
    with pytest.raises(Stop):
        talked.command(line)
