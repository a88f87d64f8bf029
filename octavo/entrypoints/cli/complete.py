"""``octavo complete``: continue a text."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import dataclass, field

from octavo.config.args import EngineArgs
from octavo.config.cli import parse
from octavo.entrypoints.cli.stopwatch import Stopwatch
from octavo.entrypoints.cli.talk import Body, open_talk
from octavo.entrypoints.cli.terminal import say, utf8_input
from octavo.kit.errors import ConfigError

_ABOUT = "Continue a text. PROMPT is the last word; - reads it from standard input."
_PIPE = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteArgs:
    """The text."""

    prompt: str | None = field(default=None, metadata={"positional": True})
    """Text to continue; - reads standard input."""

    url: str | None = None
    """Server to ask, such as http://127.0.0.1:8000; MODEL is then a name that it serves."""

    api_key: str | None = None
    """Bearer key of the server. Also OCTAVO_API_KEY."""

    max_tokens: int = 128
    """Most tokens to generate. [tokens]"""

    temperature: float | None = None
    """0 takes the likeliest token; the model's default where nothing is given."""

    top_p: float | None = None
    """Part of the probability that tokens are drawn from."""

    stop: tuple[str, ...] = ()
    """Text that ends the answer; may be given several times."""

    echo: bool = False
    """Print the prompt too."""

    stats: bool = False
    """Print tokens and times to standard error."""

    def body(self, prompt: str) -> Body:
        """The request."""
        return {
            "prompt": prompt,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "stop": list(self.stop),
        }


def run(argv: list[str]) -> int:
    """Print the continuation as it comes, and return the exit code."""
    args, asked = parse(argv, EngineArgs, CompleteArgs, prog="octavo complete", about=_ABOUT)
    prompt = _prompt(asked.prompt)
    with closing(open_talk(args, url=asked.url, api_key=asked.api_key)) as talk:
        if asked.echo:
            print(prompt, end="", flush=True)
        watch = Stopwatch()
        with closing(talk.complete(asked.body(prompt))) as pieces:
            for piece in pieces:
                watch.saw(piece)
                say(piece.text)
    print()
    if asked.stats:
        print(watch.summary(), file=sys.stderr)
    return 0


def _prompt(given: str | None) -> str:
    if given == _PIPE or (given is None and not sys.stdin.isatty()):
        with utf8_input():
            return sys.stdin.read()
    if given is None:
        fix = "octavo complete [MODEL] 'The sea is'"
        raise ConfigError("prompt", "", want="is required", fix=fix)
    return given
