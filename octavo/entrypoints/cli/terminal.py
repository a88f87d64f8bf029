"""Text in from a pipe and out to a terminal, neither of which is to be trusted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper

from octavo.kit.errors import OperatorError

_SHOWN = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"},
    ord("\r"): None,
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
}
"""Control characters as their pictures: a model shall not move the cursor or set the title."""


def say(text: str) -> None:
    """Print a piece of an answer at once; to a terminal without control characters."""
    print(text.translate(_SHOWN) if sys.stdout.isatty() else text, end="", flush=True)


@contextmanager
def utf8_input() -> Iterator[None]:
    """Read standard input as UTF-8, whatever the locale.

    Raises:
        OperatorError: it is something else.
    """
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    try:
        yield
    except UnicodeDecodeError as error:
        raise OperatorError(
            f"standard input is not UTF-8 (byte {error.object[error.start]:#04x}). "
            "Convert it, for instance with iconv."
        ) from None
