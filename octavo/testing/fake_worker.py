"""A worker without a model: its tokens are a function of what came before, its checks are strict.

A block of its KV cache remembers which tokens, after which prefix, were written to it. So a block
that is lost, given out twice or shared by accident shows at once, at the step that reads it.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from octavo.contracts.kv import KVCacheConfig, KVCacheSpec, MemoryReport
from octavo.contracts.runner import ModelRunnerOutput, RowStatus
from octavo.contracts.sampling import TokenSampling
from octavo.contracts.schedule import BlockUpdates, NewRequest, SampleInput, SchedulerOutput
from octavo.contracts.worker import WorkerInit
from octavo.testing.fake_tokens import extend_prefix, next_token
from octavo.testing.fake_tokens import prompt_logprobs as fake_prompt_logprobs
from octavo.testing.fake_tokens import token_logprobs as fake_token_logprobs

_BYTES_PER_BLOCK = 64


class FakeFault(RuntimeError):
    """A failure that a test asked for."""


class BrokenPlan(AssertionError):
    """The engine sent something that no worker could do right."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Tokens that cause failures when they are computed; -1 is none."""

    fail_step: int = -1
    """The whole step fails, the worker is sound."""
    not_finite: int = -1
    """The row's logits are not finite."""
    nothing_allowed: int = -1
    """The row's parameters exclude every token."""


@dataclass(slots=True)
class _Row:
    token_ids: list[int]
    num_prompt_tokens: int
    num_computed_tokens: int
    block_ids: list[list[int]]
    sampling: TokenSampling
    prefixes: list[int] = field(default_factory=list)
    """What each position's KV depends on: all tokens up to it."""
    status: RowStatus = RowStatus.OK


@dataclass(slots=True)
class _Step:
    number: int
    rows: list[_Row]
    starts: list[int]
    """Length of each row before the step."""
    counts: list[int]


class FakeWorker:
    """Satisfies ``WorkerAPI``.

    Raises:
        BrokenPlan: the plan contradicts the rows or blocks; nothing it does can be trusted.
        FakeFault: one of ``faults``; every call but ``reset`` fails until then.
    """

    def __init__(self, init: WorkerInit, faults: Faults | None = None) -> None:
        self._model = init.config.model
        self._block_size = init.config.cache.block_size
        self._max_tokens = init.config.scheduler.max_num_batched_tokens
        self._max_requests = init.config.scheduler.max_num_seqs
        self._max_rows = init.config.scheduler.max_rows
        self._faults = faults or Faults()
        self._rows: dict[int, _Row] = {}
        self._holders: Counter[int] = Counter()
        self._written: NDArray[np.int64] = np.zeros((0, 0), np.int64)
        self._steps: deque[_Step] = deque()
        self._last_step = 0
        self._has_failed = False
        self.num_computed_tokens = 0
        """Tokens of every plan so far."""

    def load(self) -> None:
        """Nothing to read."""

    def kv_cache_specs(self) -> list[KVCacheSpec]:
        return [
            KVCacheSpec(place, layer.kind, self._block_size, _BYTES_PER_BLOCK, layer.window)
            for place, layer in enumerate(self._model.layers)
        ]

    def measure_memory(self) -> MemoryReport:
        return MemoryReport(2**40, 0, 0, 2**39)

    def allocate(self, kv_cache: KVCacheConfig) -> None:
        self._written = np.zeros((kv_cache.num_blocks, self._block_size), np.int64)

    def warm_up(self) -> None:
        """Nothing gets faster."""

    def execute(self, plan: SchedulerOutput) -> None:
        """Apply the plan, write its tokens' prefixes and check what its rows can read."""
        self._refuse_after_failure()
        _require(plan.step > self._last_step, "steps go up")
        self._last_step = plan.step
        self._check_limits(plan)
        for number in plan.freed_rows:
            self._free(number)
        for new in plan.new:
            self._start(new)
        if plan.new_blocks is not None:
            self._grow(plan.new_blocks)
        numbers, counts = plan.rows.tolist(), plan.num_scheduled_tokens.tolist()
        rows = [self._rows[number] for number in numbers]
        step = _Step(plan.step, rows, [row.num_computed_tokens for row in rows], counts)
        for row, count in zip(rows, counts, strict=True):
            if row.status is RowStatus.OK:
                self._compute(row, count)
        self._steps.append(step)

    def sample(self, sample: SampleInput) -> ModelRunnerOutput:
        """Draw one token for each row whose last token was computed."""
        self._refuse_after_failure()
        step = self._steps.popleft()
        _require(step.number == sample.step, "the oldest plan is sampled")
        token_ids, num_tokens = [], []
        prompt_logprobs = []
        for place, (row, start) in enumerate(zip(step.rows, step.starts, strict=True)):
            is_last = row.num_computed_tokens == len(row.token_ids)
            samples = is_last and row.status is RowStatus.OK
            if row.sampling.prompt_logprobs is not None and row.status is RowStatus.OK:
                prompt_logprobs += fake_prompt_logprobs(
                    place, row.token_ids[: row.num_prompt_tokens], start, step.counts[place]
                )
            num_tokens.append(int(samples))
            token_ids.append(self._draw(row) if samples else 0)
            row.token_ids += token_ids[-1:] if samples else []
        asked = [
            place
            for place, row in enumerate(step.rows)
            if row.sampling.logprobs is not None and num_tokens[place]
        ]
        return ModelRunnerOutput(
            step=step.number,
            token_ids=np.array(token_ids, np.int32).reshape(-1, 1),
            num_tokens=np.array(num_tokens, np.int32),
            row_status=np.array([row.status for row in step.rows], np.int32),
            logprob_rows=np.array(asked, np.int32) if asked else None,
            logprobs=fake_token_logprobs([token_ids[place] for place in asked]) if asked else None,
            prompt_logprobs=prompt_logprobs,
        )

    def reset(self) -> None:
        self._rows.clear()
        self._holders.clear()
        self._steps.clear()
        self._has_failed = False

    def call(self, name: str, args: list[int | str | bool]) -> int | str | bool | None:
        if name != "num_rows" or args:
            raise ValueError(f"{name}{args}: the fake worker has num_rows() only")
        return len(self._rows)

    def close(self) -> None:
        """Nothing to release."""

    def _refuse_after_failure(self) -> None:
        if self._has_failed:
            raise FakeFault("a call before this one failed")

    def _check_limits(self, plan: SchedulerOutput) -> None:
        num_tokens = int(plan.num_scheduled_tokens.sum())
        self.num_computed_tokens += num_tokens
        numbers = plan.rows.tolist()
        _require(0 < num_tokens <= self._max_tokens, "tokens of a step are within the limit")
        _require(len(numbers) <= self._max_requests, "requests of a step are within the limit")
        _require(len(set(numbers)) == len(numbers), "a row is in a plan once")
        _require(all(0 <= row < self._max_rows for row in numbers), "rows are within the limit")
        _require(bool((plan.num_scheduled_tokens >= 1).all()), "a row of a plan computes something")

    def _free(self, number: int) -> None:
        _require(number in self._rows, "a freed row was in use")
        for blocks in self._rows.pop(number).block_ids:
            self._holders.subtract(blocks)

    def _start(self, new: NewRequest) -> None:
        _require(new.row not in self._rows, "a new row was free")
        row = _Row(
            token_ids=new.token_ids.tolist(),
            num_prompt_tokens=new.num_prompt_tokens,
            num_computed_tokens=new.num_computed_tokens,
            block_ids=[list(blocks) for blocks in new.block_ids],
            sampling=new.sampling,
        )
        _require(new.num_computed_tokens < len(row.token_ids), "a hit leaves a token to compute")
        extend_prefix(row.prefixes, row.token_ids)
        self._rows[new.row] = row
        for blocks in row.block_ids:
            self._hold(blocks)

    def _grow(self, updates: BlockUpdates) -> None:
        offsets, block_ids = updates.offsets.tolist(), updates.block_ids.tolist()
        rows, groups = updates.rows.tolist(), updates.groups.tolist()
        for place, (number, group) in enumerate(zip(rows, groups, strict=True)):
            blocks = block_ids[offsets[place] : offsets[place + 1]]
            self._rows[number].block_ids[group] += blocks
            self._hold(blocks)

    def _hold(self, blocks: list[int]) -> None:
        _require(all(0 < b < len(self._written) for b in blocks), "blocks are in the pool")
        self._holders.update(blocks)

    def _compute(self, row: _Row, count: int) -> None:
        start, end = row.num_computed_tokens, row.num_computed_tokens + count
        _require(end <= len(row.token_ids), "only tokens that exist are computed")
        extend_prefix(row.prefixes, row.token_ids)
        for group, blocks in enumerate(row.block_ids):
            self._write(row, group, blocks, range(start, end))
        row.num_computed_tokens = end
        computed = row.token_ids[start:end]
        if self._faults.fail_step in computed:
            self._has_failed = True
            raise FakeFault(f"token {self._faults.fail_step} fails the step")
        if self._faults.not_finite in computed:
            row.status = RowStatus.NOT_FINITE
        elif self._faults.nothing_allowed in computed:
            row.status = RowStatus.NOTHING_ALLOWED

    def _write(self, row: _Row, group: int, blocks: list[int], positions: range) -> None:
        size = self._block_size
        _require(positions.stop <= len(blocks) * size, "slots are within the row's blocks")
        first, last = positions.start // size, (positions.stop - 1) // size
        _require(
            all(self._holders[block] == 1 for block in blocks[first : last + 1]),
            "a block that is written belongs to one row",
        )
        content = np.array(row.prefixes[: positions.stop], np.int64) ^ group
        table = np.array(blocks[: last + 1])
        context = self._written[table].reshape(-1)
        context[positions.start : positions.stop] = content[positions.start :]
        self._written[table] = context.reshape(-1, size)
        _require(
            bool((context[: positions.stop] == content).all()),
            "every cached token of the row is where its block table says",
        )

    def _draw(self, row: _Row) -> int:
        extend_prefix(row.prefixes, row.token_ids)
        num_output = len(row.token_ids) - row.num_prompt_tokens
        return next_token(row.prefixes[-1], num_output, row.sampling, self._model.vocab_size)


def make_worker(init: WorkerInit) -> FakeWorker:
    """Make a worker without faults; ``octavo.testing.fake_worker:make_worker``."""
    return FakeWorker(init)


def make_faulty_worker(init: WorkerInit) -> FakeWorker:
    """Make a worker that fails on the last tokens of the vocabulary.

    The last fails its step, the one before makes its row not finite, the one before that
    excludes every token.
    """
    last = init.config.model.vocab_size - 1
    return FakeWorker(init, Faults(fail_step=last, not_finite=last - 1, nothing_allowed=last - 2))


def _require(is_so: bool, claim: str) -> None:  # noqa: FBT001 - the claim follows its condition
    if not is_so:
        raise BrokenPlan(f"not true: {claim}")
