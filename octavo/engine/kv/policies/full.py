"""Full attention: every block is kept until its request ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from octavo.contracts.kv import KVGroup
from octavo.engine.request import BlockHash, BlockId


class FullPolicy:
    """A query sees everything before it."""

    def __init__(self, group: KVGroup) -> None:
        self._block_size = group.block_size

    def num_blocks(self, num_tokens: int) -> int:
        return -(-num_tokens // self._block_size)

    def hit(
        self, hashes: Sequence[BlockHash], find: Callable[[BlockHash], BlockId | None]
    ) -> list[BlockId]:
        """Return the blocks up to the first that is missing."""
        blocks: list[BlockId] = []
        for block_hash in hashes:
            block = find(block_hash)
            if block is None:
                break
            blocks.append(block)
        return blocks


POLICY = FullPolicy
