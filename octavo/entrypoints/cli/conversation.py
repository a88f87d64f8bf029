"""State of a terminal chat: messages, parameters, commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from octavo.api.http.schema.checking import checked
from octavo.api.http.schema.openai import ChatCompletionRequest
from octavo.entrypoints.cli.talk import Body
from octavo.kit.errors import OctavoError

_HELP = """\
/help               this list
/reset              forget the conversation, keep instructions and parameters
/system [TEXT]      set instructions, or remove them; begins a new conversation
/undo               take back the last question and its answer
/retry              answer the last question again
/params             show parameters
/params NAME VALUE  set one, such as temperature 0.7; without VALUE the model's default
/save FILE          write the conversation as JSON
/exit               leave; so does Ctrl-D

A message of several lines: end lines with a backslash, or put it between two lines of \"\"\"."""

_PARAMS = (
    "frequency_penalty", "logit_bias", "max_tokens", "min_p", "min_tokens", "presence_penalty",
    "repetition_penalty", "seed", "stop", "temperature", "top_k", "top_p",
)  # fmt: skip


class Stop(Exception):
    """The person wants to leave."""


@dataclass(slots=True)
class Conversation:
    """Messages so far. A question waits for its answer while ``has_question``."""

    system: str | None = None
    params: Body = field(default_factory=dict)
    turns: list[dict[str, str]] = field(default_factory=list)

    @property
    def has_question(self) -> bool:
        return bool(self.turns) and self.turns[-1]["role"] == "user"

    @property
    def messages(self) -> list[dict[str, str]]:
        """What the model reads."""
        first = [{"role": "system", "content": self.system}] if self.system else []
        return [*first, *self.turns]

    def body(self) -> Body:
        """The request that answers the question."""
        return {"messages": self.messages, **self.params}

    def command(self, text: str) -> str | None:
        """Do what a typed line says, and return what to print; None where there is nothing.

        A line without a slash becomes the question.

        Raises:
            Stop: the line says so.
            RequestRefused: a parameter is out of bounds; it keeps its old value.
        """
        if not text.strip():
            return None
        if not text.startswith("/"):
            self.turns.append({"role": "user", "content": text})
            return None
        name, _, rest = text[1:].partition(" ")
        commands: dict[str, Callable[[str], str | None]] = {
            "help": lambda _: _HELP,
            "reset": self._reset,
            "system": self._system,
            "undo": self._undo,
            "retry": self._retry,
            "params": self._params,
            "save": self._save,
            "exit": self._exit,
            "quit": self._exit,
        }
        if name not in commands:
            return f"there is no command /{name}; /help lists them"
        return commands[name](rest.strip())

    def answered(self, text: str) -> None:
        """Put the answer, or the part of it that came, behind its question."""
        if text:
            self.turns.append({"role": "assistant", "content": text})
        else:
            self.drop_question()

    def drop_question(self) -> None:
        """Take back a question that got no answer."""
        if self.has_question:
            self.turns.pop()

    def _reset(self, _: str) -> str:
        self.turns.clear()
        return "the conversation is forgotten"

    def _system(self, text: str) -> str:
        self.system = text or None
        self.turns.clear()
        return "instructions are set" if text else "there are no instructions"

    def _undo(self, _: str) -> str:
        if not self.turns:
            return "there is nothing to take back"
        self.turns.pop()
        self.drop_question()
        return f"{len(self.turns) // 2} questions are left"

    def _retry(self, _: str) -> str | None:
        if not self.turns:
            return "there is no question"
        self.turns.pop()
        return None

    def _params(self, text: str) -> str:
        name, _, value = text.partition(" ")
        if not name:
            return "\n".join(f"{each} {self.params[each]}" for each in self.params) or (
                "every parameter has the model's default"
            )
        if name not in _PARAMS:
            return f"there is no parameter {name}; there are {', '.join(_PARAMS)}"
        changed = {key: old for key, old in self.params.items() if key != name}
        if value:
            changed[name] = _value(value.strip())
        question = [{"role": "user", "content": "?"}]
        checked(ChatCompletionRequest.model_validate, {"messages": question, **changed})
        self.params = changed
        return f"{name} {changed[name]}" if value else f"{name} has the model's default"

    def _save(self, path: str) -> str:
        if not path:
            return "/save needs the name of a file"
        try:
            text = json.dumps({"messages": self.messages, **self.params}, indent=2)
            Path(path).expanduser().write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise OctavoError(f"{path} was not written: {error.strerror}") from None
        return f"{len(self.messages)} messages are in {path}"

    def _exit(self, _: str) -> str | None:
        raise Stop


def _value(text: str) -> object:
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return value
