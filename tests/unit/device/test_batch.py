from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from octavo.config.scheduler import SchedulerConfig
from octavo.contracts.kv import KVGroup
from octavo.contracts.sampling import TokenSampling
from octavo.contracts.schedule import BlockUpdates, NewRequest, SchedulerOutput
from octavo.device.batch import DeviceBatch, rows_shape

LIMITS = SchedulerConfig(
    max_num_batched_tokens=100, max_num_seqs=4, max_model_len=40, policy="fcfs", overlap=True
)
SAMPLING = TokenSampling(max_tokens=9)


def new_batch() -> DeviceBatch:
    groups = [KVGroup("full", [0], 4), KVGroup("window", [1], 8, 5)]
    return DeviceBatch(LIMITS, groups, torch.zeros(rows_shape(LIMITS), dtype=torch.int32))


def request(row: int, tokens: list[int], blocks: list[list[int]], computed: int = 0) -> NewRequest:
    ids = np.array(tokens, np.int32)
    return NewRequest(row, str(row), ids, len(tokens), blocks, computed, SAMPLING)


def plan(
    grants: dict[int, int],
    new: list[NewRequest] | None = None,
    freed: list[int] | None = None,
    blocks: list[tuple[int, int, list[int]]] | None = None,
) -> SchedulerOutput:
    update = None
    if blocks:
        lengths = [len(ids) for _, _, ids in blocks]
        update = BlockUpdates(
            rows=np.array([row for row, _, _ in blocks], np.int32),
            groups=np.array([group for _, group, _ in blocks], np.int32),
            offsets=np.cumsum([0, *lengths]).astype(np.int32),
            block_ids=np.array([block for _, _, ids in blocks for block in ids], np.int32),
        )
    rows, counts = np.array(list(grants), np.int32), np.array(list(grants.values()), np.int32)
    return SchedulerOutput(1, new or [], rows, counts, freed or [], update)


def test_a_row_samples_when_its_last_token_is_computed() -> None:
    batch = new_batch()
    new = [request(5, [1, 2, 3], [[1], [1]]), request(2, [4, 5, 6], [[2], [2]])]

    first = batch.apply(plan({5: 3, 2: 2}, new))
    batch.append(np.array([5]), torch.tensor([77]))
    second = batch.apply(plan({2: 1, 5: 1}))

    assert first.sampling.tolist() == [0]
    assert first.query_start.tolist() == [0, 3, 5]
    assert second.sampling.tolist() == [0, 1]
    assert second.starts.tolist() == [2, 3]
    assert batch.token_ids[5, :4].tolist() == [1, 2, 3, 77]


def test_a_prefix_hit_starts_behind_it() -> None:
    batch = new_batch()

    step = batch.apply(plan({0: 2}, [request(0, [1, 2, 3, 4, 5, 6], [[1, 2], [1]], computed=4)]))

    assert step.starts.tolist() == [4]
    assert step.sampling.tolist() == [0]


def test_there_are_rows_for_requests_that_have_ended_but_are_in_flight() -> None:
    batch = new_batch()
    new = [request(row, [row], [[row + 1], [row + 1]]) for row in range(LIMITS.max_rows)]

    batch.apply(plan({0: 1}, new))

    assert batch.num_used_rows == 2 * LIMITS.max_num_seqs


@pytest.mark.parametrize(
    "wrong",
    [
        plan({0: 4}),
        plan({0: 1}, [request(0, [1], [[1], [1]])]),
        plan({1: 1}, [request(1, list(range(41)), [[1], [1]])]),
        plan({1: 1}, [request(1, [1, 2], [[1], [1]], computed=2)]),
    ],
)
def test_plans_that_only_a_bug_could_make_are_refused(wrong: SchedulerOutput) -> None:
    batch = new_batch()
    batch.apply(plan({0: 1}, [request(0, [1, 2], [[1], [1]])]))

    with pytest.raises(AssertionError):
        batch.apply(wrong)


class Model:
    """The same rows as plain lists, changed at random."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.tokens: dict[int, list[int]] = {}
        self.tables: dict[int, list[list[int]]] = {}
        self.computed: dict[int, int] = {}

    def plan(self) -> SchedulerOutput:
        freed = [row for row in self.tokens if self.rng.random() < 0.1]
        for row in freed:
            del self.tokens[row], self.tables[row], self.computed[row]
        free = set(range(LIMITS.max_rows)) - set(self.tokens)
        new = [self._start(row) for row in free if self.rng.random() < 0.3]
        able = [row for row, ids in self.tokens.items() if self.computed[row] < len(ids) < 36]
        grants = {
            row: self.rng.randint(1, len(self.tokens[row]) - self.computed[row])
            for row in self.rng.sample(able, min(4, len(able)))
        }
        grown = [self._grow(row) for row in grants if len(self.tables[row][1]) < 5]
        return plan(grants, new, freed, grown)

    def _start(self, row: int) -> NewRequest:
        self.tokens[row] = [self.rng.randrange(1000) for _ in range(self.rng.randint(1, 20))]
        self.tables[row] = [[self.rng.randrange(99) for _ in range(2)] for _ in range(2)]
        self.computed[row] = self.rng.randrange(len(self.tokens[row]))
        blocks = [list(table) for table in self.tables[row]]
        return request(row, self.tokens[row], blocks, self.computed[row])

    def _grow(self, row: int) -> tuple[int, int, list[int]]:
        ids = [self.rng.randrange(99)]
        self.tables[row][1] += ids
        return row, 1, ids

    def check(self, batch: DeviceBatch) -> None:
        assert batch.num_used_rows == len(self.tokens)
        for row, ids in self.tokens.items():
            assert batch.token_ids[row, : len(ids)].tolist() == ids
            assert batch.num_computed[row] == self.computed[row]
            for group, table in enumerate(self.tables[row]):
                assert batch.block_tables[group][row, : len(table)].tolist() == table


@pytest.mark.parametrize("seed", range(10))
def test_rows_and_block_tables_follow_any_sequence_of_plans(seed: int) -> None:
    model, batch = Model(seed), new_batch()

    for _ in range(200):
        change = model.plan()
        grants = dict(zip(change.rows.tolist(), change.num_scheduled_tokens.tolist(), strict=True))
        starts = [model.computed[row] for row in grants]
        step = batch.apply(change)

        assert step.starts.tolist() == starts
        for row, count in grants.items():
            model.computed[row] += count
        ends = [row for row in grants if model.computed[row] == len(model.tokens[row])]
        assert step.rows[step.sampling].tolist() == ends
        batch.append(np.array(ends, np.int64), torch.arange(len(ends)))
        for token, row in enumerate(ends):
            model.tokens[row].append(token)
        model.check(batch)


def test_a_row_cannot_hold_more_blocks_than_its_longest_text_needs() -> None:
    batch = new_batch()
    batch.apply(plan({0: 1}, [request(0, [1, 2], [[1], [1, 2, 3, 4, 5]])]))

    with pytest.raises(AssertionError, match="row 0 has 6 blocks of group 1"):
        batch.apply(plan({0: 1}, blocks=[(0, 1, [6])]))
