"""``octavo chat``: a conversation in the terminal."""

from __future__ import annotations

import readline
import sys
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from octavo.config.args import EngineArgs
from octavo.config.cli import parse
from octavo.entrypoints.cli.conversation import Conversation, Stop
from octavo.entrypoints.cli.stopwatch import Stopwatch
from octavo.entrypoints.cli.talk import Body, Talk, open_talk
from octavo.entrypoints.cli.terminal import say, utf8_input
from octavo.kit.errors import OctavoError, RequestRefused

_ABOUT = "Talk to a model in the terminal. Without MODEL or --url, the demo model."
_FENCE = '"""'
_MAX_HISTORY = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatArgs:
    """The conversation."""

    url: str | None = None
    """Server to talk to, such as http://127.0.0.1:8000; MODEL is then a name that it serves."""

    api_key: str | None = None
    """Bearer key of the server. Also OCTAVO_API_KEY."""

    system: str | None = None
    """Instructions that begin the conversation."""

    temperature: float | None = None
    """0 takes the likeliest token; the model's default where nothing is given."""

    top_p: float | None = None
    """Part of the probability that tokens are drawn from."""

    max_tokens: int | None = None
    """Longest answer. [tokens]"""

    def params(self) -> Body:
        """The fields of a request that were given."""
        given: Body = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
        }
        return {name: value for name, value in given.items() if value is not None}


def run(argv: list[str]) -> int:
    """Talk until the input ends, and return the exit code."""
    args, chat = parse(argv, EngineArgs, ChatArgs, prog="octavo chat", about=_ABOUT)
    with closing(open_talk(args, url=chat.url, api_key=chat.api_key)) as talk:
        conversation = Conversation(system=chat.system, params=chat.params())
        if sys.stdin.isatty():
            history = Path("~/.local/state/octavo/chat_history").expanduser()
            _load_history(history)
            print(f"{talk.name}. /help lists commands, Ctrl-C stops an answer, Ctrl-D leaves.")
            try:
                _loop(talk, conversation)
            finally:
                _save_history(history)
        else:
            with utf8_input():
                _loop(talk, conversation)
    return 0


def _loop(talk: Talk, conversation: Conversation) -> None:
    while True:
        try:
            text = _read()
        except EOFError:
            return
        except KeyboardInterrupt:
            print()
            continue  # drops the line that was being typed
        try:
            if reply := conversation.command(text):
                print(reply)
            elif conversation.has_question:
                _answer(talk, conversation)
        except Stop:
            return
        except OctavoError as error:
            conversation.drop_question()
            print(f"octavo: {_explain(error, conversation)}", file=sys.stderr)


def _explain(error: OctavoError, conversation: Conversation) -> str:
    is_full = isinstance(error, RequestRefused) and error.code == "context_length_exceeded"
    if not is_full or not conversation.turns:
        return str(error)
    return (
        f"the conversation does not fit into the model's context any more: {error} "
        "/undo takes back the last question and its answer, /reset begins anew."
    )


def _answer(talk: Talk, conversation: Conversation) -> None:
    """Print an answer as it comes; Ctrl-C keeps what came and goes on with the conversation."""
    watch, text = Stopwatch(), ""
    with suppress(KeyboardInterrupt), closing(talk.chat(conversation.body())) as pieces:
        for piece in pieces:
            watch.saw(piece)
            text += piece.text
            say(piece.text)
    conversation.answered(text)
    print()
    if sys.stdout.isatty():
        print(f"\033[2m{watch.summary()}\033[0m")


def _read() -> str:
    """One message: a line, lines that end in a backslash, or all between two fences."""
    prompt, more = ("> ", ". ") if sys.stdin.isatty() else ("", "")
    line = input(prompt)
    if line.strip().startswith(_FENCE):
        lines = [line.strip().removeprefix(_FENCE)]
        while not lines[-1].rstrip().endswith(_FENCE):
            lines.append(input(more))
        return "\n".join(lines).rstrip().removesuffix(_FENCE).strip("\n")
    lines = [line]
    while lines[-1].endswith("\\"):
        lines[-1] = lines[-1].removesuffix("\\")
        lines.append(input(more))
    return "\n".join(lines)


def _load_history(path: Path) -> None:
    readline.set_history_length(_MAX_HISTORY)
    with suppress(OSError):
        readline.read_history_file(path)


def _save_history(path: Path) -> None:
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        readline.write_history_file(path)
