"""Blocks, reference counts, free queue, eviction."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from octavo.engine.kv.prefix_index import PrefixIndex
from octavo.engine.request import BlockHash, BlockId


class OutOfBlocks(Exception):
    """More blocks were asked for than are free."""


@dataclass(slots=True)
class BlockPool:
    """Fixed set of KV-cache blocks with reference counts and LRU reuse.

    A block is *held* (reference count > 0) or *free*. A free block may still be *cached*: its
    content is valid and can be revived by hash until the block is taken for something else.
    Blocks without content that anyone could find are reused first. Block 0 is padding: it is
    counted in ``num_blocks`` and never given out.

    Invariant: every block but 0 is in exactly one of ``_refs`` and ``_free``.
    """

    num_blocks: int
    _refs: dict[BlockId, int] = field(init=False, default_factory=dict)
    _free: OrderedDict[BlockId, None] = field(init=False)
    _index: PrefixIndex = field(init=False, default_factory=PrefixIndex)

    def __post_init__(self) -> None:
        self._free = OrderedDict.fromkeys(BlockId(block) for block in range(1, self.num_blocks))

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_held(self) -> int:
        return len(self._refs)

    @property
    def num_cached(self) -> int:
        """Blocks, held or free, that can be found by their content."""
        return len(self._index)

    def num_references(self, block: BlockId) -> int:
        """How often a block is held."""
        return self._refs.get(block, 0)

    def take(self, count: int) -> list[BlockId]:
        """Hold ``count`` blocks, least recently freed first.

        Raises:
            OutOfBlocks: fewer than ``count`` are free; nothing is taken.
        """
        if count > len(self._free):
            raise OutOfBlocks(
                f"need {count} blocks, {len(self._free)} of {self.num_blocks - 1} are free"
            )
        taken = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in taken:
            self._index.forget(block)
            self._refs[block] = 1
        return taken

    def find(self, block_hash: BlockHash) -> BlockId | None:
        """Return the block with this content without holding it, or None on a cache miss."""
        return self._index.find(block_hash)

    def hold(self, blocks: Iterable[BlockId]) -> None:
        """Add one reference each; a free block is revived, so it must still be cached."""
        for block in blocks:
            count = self._refs.get(block, 0)
            if not count:
                assert block in self._index
                del self._free[block]
            self._refs[block] = count + 1

    def publish(self, block: BlockId, block_hash: BlockHash) -> None:
        """Make a full, held block findable. The first block with a hash wins."""
        assert block in self._refs
        self._index.add(block, block_hash)

    def release(self, blocks: Iterable[BlockId]) -> None:
        """Drop one reference each. Pass tail first: the tail is reused first."""
        for block in blocks:
            count = self._refs[block] - 1
            if count:
                self._refs[block] = count
                continue
            del self._refs[block]
            self._free[block] = None
            if block not in self._index:
                self._free.move_to_end(block, last=False)

    def forget_all(self) -> None:
        """Make no block findable; held blocks stay held."""
        self._index.clear()
