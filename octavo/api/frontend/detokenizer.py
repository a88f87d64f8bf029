"""Incremental token ids to text; stop strings."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass

_new_decoder = codecs.getincrementaldecoder("utf-8")


@dataclass(frozen=True, slots=True)
class StopText:
    """When text ends an answer."""

    strings: tuple[str, ...]
    min_tokens: int = 0
    """A string that is complete before this many tokens does not count. [tokens]"""
    is_shown: bool = False
    """The string stays in the answer."""


NO_STOP_TEXT = StopText(())


class Detokenizer:
    """Text of one answer, from tokens as they come.

    Bytes that may become a character, and characters that may become a stop string, are held
    back. Everything else is ready at once; ``take`` hands out what is ready. The work per token
    does not depend on the length of the answer.

    Invariant: all that was taken, plus ``_held``, plus bytes not yet a character, is the text.
    """

    def __init__(self, token_bytes: Mapping[int, bytes], stop: StopText = NO_STOP_TEXT) -> None:
        self._bytes_of = token_bytes.__getitem__
        self._characters = _new_decoder("replace")
        self._stop = stop
        self._ready: list[str] = []
        self._held = ""
        self.num_tokens = 0
        self.stop_string: str | None = None
        """The stop string that ended the answer."""

    def push(self, token_ids: list[int]) -> int:
        """Take tokens in, in order; return how many, fewer where a stop string ended the answer."""
        if not self._stop.strings:
            text = self._characters.decode(b"".join(map(self._bytes_of, token_ids)))
            if text:
                self._ready.append(text)
            self.num_tokens += len(token_ids)
            return len(token_ids)
        for place, token_id in enumerate(token_ids, 1):
            self.num_tokens += 1
            text = self._characters.decode(self._bytes_of(token_id))
            if text and self._ends(text):
                return place
        return len(token_ids)

    def finish(self) -> None:
        """Make ready what was held back: no more tokens come."""
        if self.stop_string is None:
            self._ready.append(self._held + self._characters.decode(b"", final=True))
            self._held = ""

    def take(self) -> str:
        """Return the text that is ready and was not taken before."""
        text = "".join(self._ready)
        self._ready.clear()
        return text

    def _ends(self, text: str) -> bool:
        window = self._held + text
        if self.num_tokens >= self._stop.min_tokens:
            found = _first_complete(window, self._stop.strings, len(self._held))
            if found is not None:
                start, self.stop_string = found
                end = start + len(self.stop_string) if self._stop.is_shown else start
                self._ready.append(window[:end])
                self._held = ""
                return True
        hold = _start_of_possible_stop(window, self._stop.strings)
        if hold:
            self._ready.append(window[:hold])
        self._held = window[hold:]
        return False


def _first_complete(window: str, strings: tuple[str, ...], num_old: int) -> tuple[int, str] | None:
    """The string whose end comes first, the longest of those; old text holds no complete one."""
    best: tuple[int, int, str] | None = None
    for string in strings:
        start = window.find(string, max(0, num_old - len(string) + 1))
        if start >= 0:
            candidate = (start + len(string), start, string)
            best = candidate if best is None else min(best, candidate)
    return None if best is None else best[1:]


def _start_of_possible_stop(window: str, strings: tuple[str, ...]) -> int:
    """Where the longest end of ``window`` begins that is the beginning of a stop string."""
    first = len(window)
    for string in strings:
        at = max(0, len(window) - len(string) + 1)
        while (at := window.find(string[0], at, first)) >= 0:
            if string.startswith(window[at:]):
                first = at
                break
            at += 1
    return first
