"""Block hash to block id, and back."""

from __future__ import annotations

from dataclasses import dataclass, field

from octavo.engine.request import BlockHash, BlockId


@dataclass(slots=True)
class PrefixIndex:
    """Which block holds which content.

    Invariant: the two maps are inverse to each other.
    """

    _block_of: dict[BlockHash, BlockId] = field(init=False, default_factory=dict)
    _hash_of: dict[BlockId, BlockHash] = field(init=False, default_factory=dict)

    def __len__(self) -> int:
        return len(self._block_of)

    def __contains__(self, block: BlockId) -> bool:
        return block in self._hash_of

    def find(self, block_hash: BlockHash) -> BlockId | None:
        """Return the block with this content, if there is one."""
        return self._block_of.get(block_hash)

    def add(self, block: BlockId, block_hash: BlockHash) -> None:
        """Make a block findable. The first block with a hash wins, and a block's first hash."""
        if block not in self._hash_of and block_hash not in self._block_of:
            self._block_of[block_hash] = block
            self._hash_of[block] = block_hash

    def forget(self, block: BlockId) -> None:
        """Drop a block whose content is about to change."""
        block_hash = self._hash_of.pop(block, None)
        if block_hash is not None:
            del self._block_of[block_hash]

    def clear(self) -> None:
        """Drop every block."""
        self._block_of.clear()
        self._hash_of.clear()
