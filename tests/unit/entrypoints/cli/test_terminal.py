"""The chat in a real terminal: a pseudo-terminal, with a person who presses Ctrl-C."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo.testing.fake_llm import FakeLLM
from tests.unit.api.http.reading import eventually

CTRL_C, CTRL_D = "\x03", "\x04"
IN_TERMINAL = (
    "import fcntl, signal, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from octavo.entrypoints.cli.main import main; sys.exit(main(sys.argv[1:]))"
)
"""Keys such as Ctrl-C reach the process whose controlling terminal this is.

Tests that run in a shell's background inherit that SIGINT is ignored; a person's terminal does not.
"""


class Terminal:
    """A terminal in which ``octavo chat`` runs."""

    def __init__(self, url: str, home: Path) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", IN_TERMINAL, "chat", "--url", url],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=os.environ | {"HOME": str(home), "TERM": "dumb"},
            start_new_session=True,
        )
        os.close(theirs)
        self.screen = ""

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def shows(self, text: str, within_s: float = 20.0) -> bool:
        """Read until ``text`` stands on the screen; what was on it before is forgotten."""
        deadline = time.monotonic() + within_s
        while text not in self.screen and time.monotonic() < deadline:
            if select.select([self._ours], [], [], 0.05)[0]:
                self.screen += os.read(self._ours, 4096).decode()
        _, found, self.screen = self.screen.partition(text)
        return bool(found)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@pytest.fixture
def terminal(url: str, tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(url, tmp_path)
    assert terminal.shows("> ")
    yield terminal
    terminal.close()


def test_an_answer_streams_and_has_its_figures(terminal: Terminal, llm: FakeLLM) -> None:
    terminal.type("What is it?\n")

    assert terminal.shows(llm.answer)
    assert terminal.shows(f"{len(llm.answer)} tokens, ")
    assert terminal.shows("tokens/s")
    assert terminal.shows("> ")


def test_ctrl_c_stops_the_answer_and_not_the_chat(terminal: Terminal, llm: FakeLLM) -> None:
    answer = llm.answer
    llm.answer, llm.step_s = "abcdefghij" * 100, 0.02
    terminal.type("Tell me a story\n")
    assert terminal.shows("abcdefghij")

    terminal.type(CTRL_C)

    assert terminal.shows("stopped")
    assert eventually(lambda: len(llm.aborted) == 1)
    llm.answer, llm.step_s = answer, 0
    terminal.type("And now?\n")
    assert terminal.shows(answer)
    assert "<assistant>abcdefghij" in llm.prompts[1]


def test_ctrl_c_at_the_prompt_drops_the_line(terminal: Terminal, llm: FakeLLM) -> None:
    terminal.type("half a li")
    assert terminal.shows("half a li")

    terminal.type(CTRL_C)

    assert terminal.shows("> ")
    terminal.type("whole\n")
    assert terminal.shows(llm.answer)
    assert llm.prompts == ["<user>whole\n<assistant>"]


def test_ctrl_d_leaves_and_lines_are_remembered(
    terminal: Terminal, llm: FakeLLM, tmp_path: Path
) -> None:
    terminal.type("a question\n")
    assert terminal.shows("tokens/s")
    assert terminal.shows("> ")
    time.sleep(0.05)  # the prompt is printed before the line editor has taken the terminal

    terminal.type(CTRL_D)

    assert terminal.process.wait(10) == 0
    history = tmp_path / ".local/state/octavo/chat_history"
    assert "a question" in history.read_text()
