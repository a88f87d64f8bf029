"""Threads for text work, so that long prompts and templates do not hold up the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from octavo.api.text.tokenizer import Tokenizer
from octavo.kit.errors import Overloaded

T = TypeVar("T")


class TextThreads:
    """A few threads and a bounded line before them. Used from one event loop."""

    def __init__(self, *, num_threads: int = 2, max_waiting: int = 4096) -> None:
        self._pool = ThreadPoolExecutor(num_threads, thread_name_prefix="octavo-text")
        self._max_waiting = max_waiting
        self._waiting = 0

    async def encode(
        self, tokenizer: Tokenizer, text: str, *, add_special_tokens: bool
    ) -> list[int]:
        """Token ids of ``text``."""
        return await self.run(lambda: tokenizer.encode(text, add_special_tokens=add_special_tokens))

    async def run(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns, called in one of the threads.

        Raises:
            Overloaded: too many calls wait already.
        """
        if self._waiting >= self._max_waiting:
            raise Overloaded(
                f"{self._waiting} texts wait to be read, at most {self._max_waiting} may. "
                "Send the request again later.",
                retry_after_s=1.0,
            )
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """End the threads after the calls they are in; drop the others."""
        self._pool.shutdown(wait=False, cancel_futures=True)
