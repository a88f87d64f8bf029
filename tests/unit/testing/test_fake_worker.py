"""The fake is only worth something if it notices."""

from __future__ import annotations

import numpy as np
import pytest

from octavo.contracts.kv import KVCacheConfig, KVGroup
from octavo.contracts.runner import RowStatus
from octavo.contracts.sampling import TokenSampling
from octavo.contracts.schedule import BlockUpdates, NewRequest, SampleInput, SchedulerOutput
from octavo.contracts.worker import WorkerInit
from octavo.testing.fake_config import fake_config
from octavo.testing.fake_worker import BrokenPlan, FakeFault, make_faulty_worker, make_worker


def make(maker=make_worker):
    worker = maker(WorkerInit(fake_config()))
    worker.load()
    worker.allocate(KVCacheConfig(20, [KVGroup("full", [0, 1], 4)], []))
    worker.warm_up()
    return worker


def column(*values: int):
    return np.array(values, np.int32)


def new(row: int, tokens, blocks, *, computed: int = 0, **sampling) -> NewRequest:
    parameters = TokenSampling(max_tokens=8, **sampling)
    tokens = list(tokens)
    return NewRequest(
        row, f"r{row}", column(*tokens), len(tokens), [list(blocks)], computed, parameters
    )


def plan(step: int, rows: dict[int, int], news=(), freed=(), grown=()) -> SchedulerOutput:
    updates = None
    if grown:
        numbers, blocks = zip(*grown, strict=True)
        offsets = column(*range(len(grown) + 1))
        updates = BlockUpdates(
            column(*numbers), column(*[0] * len(grown)), offsets, column(*blocks)
        )
    return SchedulerOutput(
        step, list(news), column(*rows), column(*rows.values()), list(freed), updates
    )


def run(worker, sent: SchedulerOutput):
    worker.execute(sent)
    return worker.sample(SampleInput(sent.step))


def test_a_token_depends_on_all_tokens_before_it_and_on_the_seed():
    worker = make()
    rows = {0: 3, 1: 3, 2: 3, 3: 3}
    news = [
        new(0, [1, 2, 3], [1]),
        new(1, [1, 2, 3], [2]),
        new(2, [9, 2, 3], [3]),
        new(3, [1, 2, 3], [4], seed=5),
    ]

    first, same, other, seeded = run(worker, plan(1, rows, news)).token_ids[:, 0].tolist()

    assert first == same
    assert first not in (other, seeded)


def test_only_a_row_whose_last_token_was_computed_samples():
    sampled = run(make(), plan(1, {0: 3, 1: 2}, [new(0, [1, 2, 3], [1]), new(1, [1, 2, 3], [2])]))

    assert sampled.num_tokens.tolist() == [1, 0]


ONE, TWO = new(0, [1], [1]), new(1, [1], [2])

BROKEN = {
    "steps go up": [plan(2, {0: 1}, [ONE]), plan(2, {0: 1})],
    "a new row was free": [plan(1, {0: 1}, [ONE, ONE])],
    "a freed row was in use": [plan(1, {0: 1}, [ONE], freed=[3])],
    "tokens of a step": [plan(1, {0: 65}, [new(0, range(65), range(1, 18))])],
    "rows are within": [plan(1, {16: 1}, [new(16, [1], [1])])],
    "computes something": [plan(1, {0: 1, 1: 0}, [ONE, TWO])],
    "blocks are in the pool": [plan(1, {0: 1}, [new(0, [1], [0])])],
    "only tokens that exist": [plan(1, {0: 2}, [ONE])],
    "slots are within": [plan(1, {0: 5}, [new(0, range(5), [1])])],
    "belongs to one row": [plan(1, {0: 1, 1: 1}, [ONE, new(1, [2], [1])])],
    "where its block table says": [plan(1, {0: 1}, [new(0, range(5), [1, 2], computed=4)])],
    "a hit leaves a token": [plan(1, {0: 1}, [new(0, [1], [1], computed=1)])],
}


@pytest.mark.parametrize("claim", BROKEN)
def test_a_plan_that_no_worker_could_do_right_is_noticed(claim):
    worker = make()
    *before, broken = BROKEN[claim]
    for sent in before:
        run(worker, sent)

    with pytest.raises(BrokenPlan, match=claim):
        run(worker, broken)


def test_plans_are_sampled_in_order():
    worker = make()
    worker.execute(plan(1, {0: 1}, [ONE]))

    with pytest.raises(BrokenPlan, match="the oldest plan"):
        worker.sample(SampleInput(2))


def test_a_block_that_another_row_has_overwritten_is_noticed():
    worker = make()
    run(worker, plan(1, {0: 4}, [new(0, [1, 2, 3, 4], [1])]))
    run(worker, plan(2, {1: 4}, [new(1, [5, 6, 7, 8], [1])], freed=[0]))

    with pytest.raises(BrokenPlan, match="where its block table says"):
        run(worker, plan(3, {2: 1}, [new(2, [1, 2, 3, 4, 5], [1, 2], computed=4)]))


def test_blocks_can_be_added_and_a_shared_prefix_read():
    worker = make()
    run(worker, plan(1, {0: 4}, [new(0, [1, 2, 3, 4], [1])]))

    run(
        worker, plan(2, {0: 1, 1: 1}, [new(1, [1, 2, 3, 4, 9], [1, 3], computed=4)], grown=[(0, 2)])
    )

    assert worker.num_computed_tokens == 6
    assert worker.call("num_rows", []) == 2


@pytest.mark.parametrize(
    ("token", "status"), [(995, RowStatus.NOT_FINITE), (994, RowStatus.NOTHING_ALLOWED)]
)
def test_a_bad_row_stays_bad_and_its_neighbour_does_not_notice(token, status):
    worker = make(make_faulty_worker)
    news = [new(0, [token], [1]), new(1, [5], [2])]

    for step in (1, 2):
        sampled = run(worker, plan(step, {0: 1, 1: 1}, news if step == 1 else ()))
        assert sampled.row_status.tolist() == [status, RowStatus.OK]
        assert sampled.num_tokens.tolist() == [0, 1]


def test_after_a_failed_step_every_call_fails_until_reset():
    worker = make(make_faulty_worker)
    with pytest.raises(FakeFault, match="token 996"):
        run(worker, plan(1, {0: 1}, [new(0, [996], [1])]))

    with pytest.raises(FakeFault, match="a call before"):
        run(worker, plan(2, {0: 1}))
    worker.reset()

    run(worker, plan(3, {0: 1}, [new(0, [5], [1])]))
    worker.close()


def test_an_unknown_call_says_what_there_is():
    with pytest.raises(ValueError, match="num_rows"):
        make().call("fly", [])
