"""KVCacheManager: hit, allocate, free per request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from octavo.contracts.kv import KVCacheConfig
from octavo.engine.kv.block_hash import BlockHasher
from octavo.engine.kv.block_pool import BlockPool
from octavo.engine.kv.policies.base import KVPolicy
from octavo.engine.request import NEVER, BlockHash, BlockId, Request
from octavo.kit.extension import ExtensionPoint

KV_POLICIES = ExtensionPoint("octavo.kv_policies", "octavo.engine.kv.policies", "POLICY")


@dataclass(frozen=True, slots=True)
class PrefixHit:
    """What the cache has for a request that is about to start. Nothing is held by it."""

    blocks: list[list[BlockId]]
    """Per KV group."""
    num_tokens: int
    next_hash: BlockHash | None = None
    """The first block that is missing, where it is shareable."""


@dataclass(slots=True)
class _Group:
    policy: KVPolicy
    tag: bytes
    """Separates equal content of different groups in the index."""
    find: Callable[[BlockHash], BlockId | None] = field(repr=False)


class KVCacheManager:
    """Blocks of every request, and which of them can be shared.

    The blocks of a whole prompt are taken when its request starts, so a started prompt cannot be
    stopped half way by a lack of blocks; blocks of the answer are taken one by one.

    Invariant: a request's blocks hold at least ``num_computed_tokens`` tokens, and a block that
    is in two requests is full and is not written any more.
    """

    def __init__(self, kv_cache: KVCacheConfig, *, model: str, prefix_caching: bool) -> None:
        self.block_size = kv_cache.groups[0].block_size
        self._pool = BlockPool(kv_cache.num_blocks)
        self._hasher = BlockHasher(model, self.block_size) if prefix_caching else None
        self._computing: dict[BlockHash, Request] = {}
        self.num_queried_tokens = 0
        """Tokens of requests that started, without resumptions, so far."""
        self.num_hit_tokens = 0
        """Those of them that were cached."""
        several = len(kv_cache.groups) > 1
        self._groups = [
            self._group(KV_POLICIES.load(group.kind)(group), bytes([place]) if several else b"")
            for place, group in enumerate(kv_cache.groups)
        ]

    @property
    def num_free_blocks(self) -> int:
        return self._pool.num_free

    @property
    def num_cached_blocks(self) -> int:
        return self._pool.num_cached

    @property
    def usage(self) -> float:
        """Held blocks over all blocks."""
        return self._pool.num_held / (self._pool.num_blocks - 1)

    def find_hit(self, request: Request) -> PrefixHit:
        """Look up the longest cached prefix that leaves a token to compute."""
        if self._hasher is None or request.wants_prompt_logprobs:
            return PrefixHit(blocks=[[] for _ in self._groups], num_tokens=0)
        limit = (request.num_tokens - 1) // self.block_size
        self._hasher.extend(request, limit)
        hashes = request.block_hashes[:limit]
        found = [group.policy.hit(hashes, group.find) for group in self._groups]
        count = min(len(blocks) for blocks in found)
        return PrefixHit(
            blocks=[blocks[:count] for blocks in found],
            num_tokens=count * self.block_size,
            next_hash=hashes[count] if count < limit else None,
        )

    def is_being_computed(self, block_hash: BlockHash | None) -> bool:
        """Whether a running request is on its way to this block."""
        return block_hash in self._computing

    def num_blocks_to_start(self, request: Request, hit: PrefixHit) -> int:
        """Free blocks that starting would use up: missing ones and those that are revived."""
        missing = sum(
            group.policy.num_blocks(request.num_tokens) - len(blocks)
            for group, blocks in zip(self._groups, hit.blocks, strict=True)
        )
        references = self._pool.num_references
        return missing + sum(not references(block) for blocks in hit.blocks for block in blocks)

    def try_start(self, request: Request, hit: PrefixHit) -> bool:
        """Give a request its hit and blocks for all its tokens, or change nothing."""
        if self.num_blocks_to_start(request, hit) > self._pool.num_free:
            return False
        for blocks in hit.blocks:
            self._pool.hold(blocks)
        for group, blocks in zip(self._groups, hit.blocks, strict=True):
            missing = group.policy.num_blocks(request.num_tokens) - len(blocks)
            blocks.extend(self._pool.take(missing))
        request.block_ids = hit.blocks
        request.capacity = len(hit.blocks[0]) * self.block_size
        request.num_computed_tokens = request.num_confirmed_tokens = hit.num_tokens
        self._announce(request, hit.num_tokens)
        if not request.scheduled_time:
            self.num_queried_tokens += request.num_tokens
            self.num_hit_tokens += hit.num_tokens
        return True

    def try_grow(self, request: Request, num_tokens: int) -> int:
        """Make room for ``num_tokens`` in all.

        Returns how many blocks were added to each group; 0 if they were not free, and then
        nothing changed.
        """
        added = -(-(num_tokens - request.capacity) // self.block_size)
        if added * len(self._groups) > self._pool.num_free:
            return 0
        for blocks in request.block_ids:
            blocks.extend(self._pool.take(added))
        request.capacity += added * self.block_size
        return added

    def publish(self, request: Request) -> None:
        """Make the blocks that are full and confirmed findable."""
        assert self._hasher is not None
        num_full = request.num_confirmed_tokens // self.block_size
        self._hasher.extend(request, num_full)
        for place in range(request.num_published_blocks, num_full):
            block_hash = request.block_hashes[place]
            for group, blocks in zip(self._groups, request.block_ids, strict=True):
                self._pool.publish(blocks[place], BlockHash(group.tag + block_hash))
            self._withdraw(request, block_hash)
        request.num_published_blocks = num_full
        request.publish_at = (num_full + 1) * self.block_size

    def release(self, request: Request) -> None:
        """Take all blocks from a request."""
        for blocks in request.block_ids:
            self._pool.release(reversed(blocks))
        request.block_ids = []
        request.capacity = 0
        for block_hash in request.block_hashes[request.num_published_blocks :]:
            self._withdraw(request, block_hash)
        request.num_published_blocks = 0
        request.publish_at = NEVER

    def forget_prefixes(self) -> int:
        """Make no block findable; return how many were."""
        count = self._pool.num_cached
        self._pool.forget_all()
        return count

    def _group(self, policy: KVPolicy, tag: bytes) -> _Group:
        pool = self._pool
        return _Group(policy, tag, lambda block_hash: pool.find(BlockHash(tag + block_hash)))

    def _announce(self, request: Request, num_hit_tokens: int) -> None:
        """Let others wait for the prompt blocks that this request is going to compute."""
        if self._hasher is None:
            return
        num_hit = num_hit_tokens // self.block_size
        request.num_published_blocks = num_hit
        request.publish_at = (num_hit + 1) * self.block_size
        num_full = request.num_tokens // self.block_size
        self._hasher.extend(request, num_full)
        for block_hash in request.block_hashes[num_hit:num_full]:
            self._computing.setdefault(block_hash, request)

    def _withdraw(self, request: Request, block_hash: BlockHash) -> None:
        if self._computing.get(block_hash) is request:
            del self._computing[block_hash]
