from __future__ import annotations

import io
from typing import Any

import pytest

from octavo.entrypoints.cli.main import main
from octavo.entrypoints.cli.terminal import say
from octavo.kit.errors import PromptTooLong
from octavo.testing.fake_llm import FakeLLM


def chat(monkeypatch: pytest.MonkeyPatch, url: str, text: str, *flags: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    return main(["chat", "--url", url, *flags])


def test_each_line_is_answered_and_remembered(
    monkeypatch: pytest.MonkeyPatch, url: str, llm: FakeLLM, capsys: pytest.CaptureFixture[str]
) -> None:
    assert chat(monkeypatch, url, "one\ntwo\n", "--system", "Be brief.", "--temperature", "0") == 0

    assert capsys.readouterr().out == f"{llm.answer}\n{llm.answer}\n"
    assert llm.prompts[1] == (
        f"<system>Be brief.\n<user>one\n<assistant>{llm.answer}\n<user>two\n<assistant>"
    )
    assert llm.params[0].temperature == 0


def test_lines_are_joined_by_a_backslash_and_between_fences(
    monkeypatch: pytest.MonkeyPatch, url: str, llm: FakeLLM
) -> None:
    chat(monkeypatch, url, 'a\\\nb\n/reset\n"""\nc\n\nd\n"""\n/reset\n"""e"""\n')

    assert [prompt.split("<assistant>")[0] for prompt in llm.prompts] == [
        "<user>a\nb\n",
        "<user>c\n\nd\n",
        "<user>e\n",
    ]


def test_commands_are_not_asked(
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    llm: FakeLLM,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chat(monkeypatch, url, "/params max_tokens 3\nx\n/exit\nnever\n")

    assert capsys.readouterr().out == f"max_tokens 3\n{llm.answer[:3]}\n"
    assert len(llm.prompts) == 1


def test_an_error_is_told_and_the_conversation_goes_on(
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    llm: FakeLLM,
    capsys: pytest.CaptureFixture[str],
) -> None:
    llm.refused_prompt = "<user>bad\n<assistant>"

    assert chat(monkeypatch, url, "bad\ngood\n") == 0

    captured = capsys.readouterr()
    assert "is refused" in captured.err
    assert captured.out == f"{llm.answer}\n"
    assert llm.prompts == ["<user>good\n<assistant>"]


def test_an_interrupt_keeps_what_came_and_the_conversation(
    monkeypatch: pytest.MonkeyPatch, url: str, llm: FakeLLM, capsys: pytest.CaptureFixture[str]
) -> None:
    printed: list[str] = []

    class Terminal(io.StringIO):
        def write(self, text: str) -> int:
            printed.append(text)
            if printed.count("T") == 1 and text == "h":
                raise KeyboardInterrupt
            return len(text)

    monkeypatch.setattr("sys.stdout", Terminal())

    assert chat(monkeypatch, url, "one\ntwo\n") == 0

    assert "<assistant>Th\n<user>two" in llm.prompts[1]


def test_complete_prints_the_continuation(
    url: str, llm: FakeLLM, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--max-tokens", "4", "--stop", "a", "--stop", "b", "--echo", "--stats"]

    assert main(["complete", "alias", "The sea", "--url", url, *flags]) == 0

    captured = capsys.readouterr()
    assert captured.out == f"The sea{llm.answer[:4]}\n"
    assert captured.err.startswith("4 tokens, ")
    assert "cut at the limit" in captured.err
    assert llm.params[0].stop == ("a", "b")


@pytest.mark.parametrize("words", [["-"], []])
def test_complete_reads_standard_input(
    monkeypatch: pytest.MonkeyPatch, url: str, llm: FakeLLM, words: list[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("from a pipe"))

    assert main(["complete", "--url", url, *words]) == 0

    assert llm.prompts == ["from a pipe"]


def test_complete_wants_a_prompt(
    monkeypatch: pytest.MonkeyPatch, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal())

    assert main(["complete", "--url", url]) == 2
    assert "prompt" in capsys.readouterr().err


def test_a_full_context_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, url: str, llm: FakeLLM, capsys: pytest.CaptureFixture[str]
) -> None:
    add = FakeLLM.add

    async def full_at_the_second(llm: FakeLLM, *args: Any, **options: Any) -> object:
        if llm.prompts:
            raise PromptTooLong(num_prompt_tokens=10, max_tokens=1, limit=10)
        return await add(llm, *args, **options)

    monkeypatch.setattr(FakeLLM, "add", full_at_the_second)

    assert chat(monkeypatch, url, "one\ntwo\n") == 0

    error = capsys.readouterr().err
    assert "the conversation does not fit into the model's context any more" in error
    assert "/reset begins anew" in error


@pytest.mark.parametrize(("is_terminal", "shown"), [(True, "a␛]0;x␇b\n�"), (False, None)])
def test_a_terminal_gets_no_control_characters(
    monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool, shown: str | None
) -> None:
    text = "a\x1b]0;x\x07b\r\n\x9b"
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: is_terminal)
    monkeypatch.setattr("sys.stdout", out)

    say(text)

    assert out.getvalue() == (shown or text)
