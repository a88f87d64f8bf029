"""What a kind of cache must say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from octavo.engine.request import BlockHash, BlockId


class KVPolicy(Protocol):
    """How one KV group keeps and finds blocks.

    ``POLICY`` of a module in this package is a class built as ``POLICY(group)``, a ``KVGroup``.
    """

    def num_blocks(self, num_tokens: int) -> int:
        """Blocks a request of this length holds."""

    def hit(
        self, hashes: Sequence[BlockHash], find: Callable[[BlockHash], BlockId | None]
    ) -> list[BlockId]:
        """Return cached blocks for the longest prefix of ``hashes`` that can be continued."""
