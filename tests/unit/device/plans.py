"""An engine in thirty lines: plans for requests that a test gives, without a scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from octavo.contracts.kv import KVCacheConfig, KVCacheSpec, KVGroup, KVTensor
from octavo.contracts.runner import ModelRunnerOutput
from octavo.contracts.sampling import TokenSampling
from octavo.contracts.schedule import BlockUpdates, NewRequest, SchedulerOutput


def plan_kv(specs: list[KVCacheSpec], num_blocks: int) -> KVCacheConfig:
    """One group and one tensor per layer."""
    return KVCacheConfig(
        num_blocks=num_blocks,
        groups=[KVGroup(s.kind, [s.layer], s.block_size, s.window) for s in specs],
        tensors=[KVTensor([s.layer], s.bytes_per_block) for s in specs],
    )


@dataclass
class Live:
    row: int
    tokens: list[int]
    num_prompt: int
    sampling: TokenSampling
    computed: int = 0
    blocks: list[list[int]] = field(default_factory=list)
    is_new: bool = True
    num_failed: int = 0

    @property
    def output(self) -> list[int]:
        return self.tokens[self.num_prompt :]


class Planner:
    """Keeps rows and blocks of a worker; blocks are given out in a scattered order."""

    def __init__(self, kv_cache: KVCacheConfig) -> None:
        self.sizes = [group.block_size for group in kv_cache.groups]
        order = np.random.default_rng(0).permutation(np.arange(1, kv_cache.num_blocks))
        self.free = order.tolist()
        self.step = 0
        self._freed: list[int] = []

    def plan(self, grants: list[tuple[Live, int]]) -> SchedulerOutput:
        """One step that computes so many tokens of each request."""
        new, updates = [], []
        for live, count in grants:
            fresh = self._grow(live, live.computed + count)
            if live.is_new:
                live.is_new = False
                new.append(
                    NewRequest(
                        live.row,
                        str(live.row),
                        np.array(live.tokens, np.int32),
                        live.num_prompt,
                        fresh,
                        0,
                        live.sampling,
                    )
                )
            else:
                updates += [(live.row, group, ids) for group, ids in enumerate(fresh) if ids]
        self.step += 1
        freed, self._freed = self._freed, []
        return SchedulerOutput(
            step=self.step,
            new=new,
            rows=np.array([live.row for live, _ in grants], np.int32),
            num_scheduled_tokens=np.array([count for _, count in grants], np.int32),
            freed_rows=freed,
            new_blocks=_columns(updates) if updates else None,
        )

    def end(self, live: Live) -> None:
        """Free the row and the blocks; the next plan says so."""
        self._freed.append(live.row)
        self.free += [block for blocks in live.blocks for block in blocks]

    def _grow(self, live: Live, num_tokens: int) -> list[list[int]]:
        live.blocks = live.blocks or [[] for _ in self.sizes]
        fresh = []
        for blocks, size in zip(live.blocks, self.sizes, strict=True):
            need = -(-num_tokens // size) - len(blocks)
            fresh.append([self.free.pop(0) for _ in range(need)])
            blocks.extend(fresh[-1])
        return fresh


def take(grants: list[tuple[Live, int]], sampled: ModelRunnerOutput) -> None:
    """Apply a reply to the requests of its plan."""
    for place, (live, count) in enumerate(grants):
        live.computed += count
        if sampled.num_tokens[place]:
            live.tokens.append(int(sampled.token_ids[place, 0]))
        elif sampled.row_status[place]:
            live.num_failed += 1


def _columns(updates: list[tuple[int, int, list[int]]]) -> BlockUpdates:
    offsets = np.cumsum([0, *(len(ids) for _, _, ids in updates)])
    return BlockUpdates(
        rows=np.array([row for row, _, _ in updates], np.int32),
        groups=np.array([group for _, group, _ in updates], np.int32),
        offsets=offsets.astype(np.int32),
        block_ids=np.array([block for _, _, ids in updates for block in ids], np.int32),
    )
