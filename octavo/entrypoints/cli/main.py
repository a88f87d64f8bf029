"""Find the sub-command, run it, print errors as one line, exit with a code.

Imports nothing but the standard library before a sub-command is known: ``--version`` and
``--help`` answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from octavo import __version__
from octavo.kit.errors import OctavoError, OperatorError, RequestRefused

_COMMANDS = {
    "serve": "Serve a model over HTTP, with the OpenAI API.",
    "chat": "Talk to a model in the terminal.",
    "complete": "Continue a text.",
    "bench": "Measure throughput, latency, serving under load, or start-up.",
    "inspect": "Show what a model and options resolve to, with reasons.",
}
_INTERRUPTED = 130
_OPERATOR = 2
_NO_READER = 141
"""What a shell says of a program that SIGPIPE ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that ``argv`` names, and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return 0 if words else _OPERATOR
    if words[0] in ("-V", "--version", "version"):
        print(f"octavo {__version__}")
        return 0
    if words[0] not in _COMMANDS:
        return _fail(_unknown(words[0]), _OPERATOR)
    return _run(words[0], words[1:])


def _run(command: str, argv: list[str]) -> int:
    try:
        code = import_module(f"octavo.entrypoints.cli.{command}").run(argv)
        sys.stdout.flush()
    except (OperatorError, RequestRefused) as error:
        return _fail(str(error), _OPERATOR)
    except OctavoError as error:
        return _fail(str(error), 1)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads any more
        return _NO_READER
    return int(code or 0)


def _fail(message: str, code: int) -> int:
    print("octavo: " + " ".join(message.split()), file=sys.stderr)
    return code


def _help() -> str:
    lines = [f"  {name:<10}{text}" for name, text in _COMMANDS.items()]
    return "\n".join(
        (
            "usage: octavo COMMAND [OPTIONS]",
            "",
            "Inference and serving of large language models.",
            "",
            *lines,
            "",
            "octavo COMMAND --help lists the options of a command.",
            "octavo --version prints the version.",
        )
    )


def _unknown(word: str) -> str:
    # Standard library, but it costs more than the rest of --version.
    near = import_module("difflib").get_close_matches(word, _COMMANDS, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"It is one of: {', '.join(_COMMANDS)}."
    return f"there is no command {word!r}. {hint}"
