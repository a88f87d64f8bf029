"""DeviceBatch: what the device knows about each request between steps.

R requests this step, S rows that sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.config.scheduler import SchedulerConfig
from octavo.contracts.kv import KVGroup
from octavo.contracts.schedule import BlockUpdates, NewRequest, SchedulerOutput
from octavo.device.ops.upload import upload

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StepRows:
    """One plan, applied: where its tokens begin and which of its rows sample. Host arrays."""

    step: int
    new: list[NewRequest]
    rows: Ints
    """[R]"""
    starts: Ints
    """[R] position of each row's first token in this step."""
    lengths: Ints
    """[R] tokens computed in this step."""
    query_start: Ints
    """[R + 1] where each row's tokens begin among the tokens of the step."""
    sampling: Ints
    """[S] places in the plan of the rows that sample."""


def rows_shape(limits: SchedulerConfig) -> tuple[int, int]:
    """Rows, and tokens that one row can hold."""
    return limits.max_rows, limits.max_model_len + 1


class DeviceBatch:
    """One row per request, from its first step to its last. Rows are never moved.

    Token ids live on the device, so that a step can read what the last one sampled; lengths and
    block tables live on the host, which always knows them.

    Invariant: a row in use has ``num_computed <= num_tokens``; a free row has ``num_tokens == 0``.
    """

    def __init__(self, limits: SchedulerConfig, groups: list[KVGroup], token_ids: Tensor) -> None:
        """Take ``token_ids``, an int32 tensor of ``rows_shape(limits)`` on the device."""
        assert token_ids.shape == rows_shape(limits)
        rows = limits.max_rows
        self.token_ids = token_ids
        self.num_tokens: Ints = np.zeros(rows, np.int64)
        self.num_computed: Ints = np.zeros(rows, np.int64)
        self.num_prompt_tokens: Ints = np.zeros(rows, np.int64)
        self.block_sizes = [group.block_size for group in groups]
        self.block_tables: list[NDArray[np.int32]] = []
        for group in groups:
            shape = (rows, -(-limits.max_model_len // group.block_size))
            # Host memory everywhere: a step sends the part it needs.
            self.block_tables.append(np.zeros(shape, np.int32))
        self._num_blocks = np.zeros((len(groups), rows), np.int64)
        self.version = 0
        """Changes when a block table does."""

    @property
    def width(self) -> int:
        """Tokens that one row can hold."""
        return self.token_ids.shape[1]

    @property
    def num_used_rows(self) -> int:
        return int(np.count_nonzero(self.num_tokens))

    def apply(self, plan: SchedulerOutput) -> StepRows:
        """Change the rows as ``plan`` says, and return what its step computes."""
        for row in plan.freed_rows:
            self._free(row)
        for request in plan.new:
            self._start(request)
        if plan.new_blocks is not None:
            self._append_blocks(plan.new_blocks)
        rows, lengths = plan.rows.astype(np.int64), plan.num_scheduled_tokens.astype(np.int64)
        starts = self.num_computed[rows]
        ends, known = starts + lengths, self.num_tokens[rows]
        assert (ends <= known).all(), f"step {plan.step} computes tokens that no row has"
        self.num_computed[rows] = ends
        query_start = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=query_start[1:])
        sampling = np.flatnonzero(ends == known)
        return StepRows(plan.step, plan.new, rows, starts, lengths, query_start, sampling)

    def append(self, rows: Ints, token_ids: Tensor) -> None:
        """Add one sampled token to each of ``rows``.

        Shapes:
            token_ids: [S] int64, device
        """
        places = upload(self.next_places(rows), self.token_ids.device)
        self.token_ids.view(-1).index_copy_(0, places, token_ids.to(torch.int32))
        self.count_appended(rows)

    def next_places(self, rows: Ints) -> Ints:
        """Where the next token of each of ``rows`` goes, in the flat ``token_ids``."""
        return rows * self.width + self.num_tokens[rows]

    def count_appended(self, rows: Ints) -> None:
        """Count one more token in each of ``rows``: the device writes it to its place."""
        self.num_tokens[rows] += 1

    def reset(self) -> None:
        """Free every row."""
        self.num_tokens[:] = 0
        self.num_computed[:] = 0
        self._num_blocks[:] = 0

    def _free(self, row: int) -> None:
        self.num_tokens[row] = self.num_computed[row] = 0
        self._num_blocks[:, row] = 0

    def _start(self, request: NewRequest) -> None:
        row, count = request.row, len(request.token_ids)
        assert self.num_tokens[row] == 0, f"row {row} is in use"
        assert request.num_computed_tokens < count < self.width, f"row {row}: {count} tokens"
        # A copy, because a decoded message is read-only and torch wants to own its memory.
        token_ids = upload(request.token_ids.copy(), self.token_ids.device)
        self.token_ids[row, :count].copy_(token_ids, non_blocking=True)
        self.num_tokens[row] = count
        self.num_computed[row] = request.num_computed_tokens
        self.num_prompt_tokens[row] = request.num_prompt_tokens
        for group, block_ids in enumerate(request.block_ids):
            self._extend(group, row, np.asarray(block_ids, np.int32))

    def _append_blocks(self, update: BlockUpdates) -> None:
        offsets = update.offsets.tolist()
        pairs = zip(update.rows.tolist(), update.groups.tolist(), strict=True)
        for index, (row, group) in enumerate(pairs):
            self._extend(group, row, update.block_ids[offsets[index] : offsets[index + 1]])

    def _extend(self, group: int, row: int, block_ids: NDArray[np.int32]) -> None:
        self.version += 1
        begin, table = self._num_blocks[group, row], self.block_tables[group]
        end = begin + len(block_ids)
        assert end <= table.shape[1], f"row {row} has {end} blocks of group {group}"
        table[row, begin:end] = block_ids
        self._num_blocks[group, row] = end
