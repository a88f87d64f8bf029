from __future__ import annotations

from octavo.engine.schedule.builder import StepBuilder
from tests.unit.engine.make import make_request


def running(sequence: int, *, row: int, prompt=range(10)):
    request = make_request(prompt, sequence=sequence)
    request.row = row
    request.block_ids = [[10 * sequence + 1, 10 * sequence + 2, 10 * sequence + 3]]
    return request


def test_a_plan_is_columns_in_the_order_of_decisions():
    step, one, two = StepBuilder(), running(1, row=5), running(2, row=3)
    step.start(two, 4)
    step.schedule(one, 10)
    step.grow(one, 2)

    flight = step.build(7, freed_rows=[9])

    assert flight.requests == [two, one]
    assert flight.plan.rows.tolist() == [3, 5]
    assert flight.plan.num_scheduled_tokens.tolist() == [4, 10]
    assert (flight.plan.step, flight.plan.freed_rows) == (7, [9])
    [new] = flight.plan.new
    assert (new.row, new.token_ids.tolist(), new.block_ids) == (3, list(range(10)), [[21, 22, 23]])
    updates = flight.plan.new_blocks
    assert updates.rows.tolist() == [5]
    assert updates.offsets.tolist() == [0, 2]
    assert updates.block_ids.tolist() == [12, 13]


def test_computing_the_last_known_token_promises_another():
    step, part, whole = StepBuilder(), running(1, row=0), running(2, row=1)

    step.schedule(part, 9)
    step.schedule(whole, 10)

    assert (part.num_tokens, part.num_pending_tokens) == (10, 1)
    assert (whole.num_tokens, whole.num_pending_tokens) == (11, 1)


def test_a_dropped_decision_leaves_no_trace():
    step, stays = StepBuilder(), running(1, row=0)
    part, whole, idle = running(2, row=1), running(3, row=2), running(4, row=3)
    step.schedule(stays, 10)
    step.schedule(part, 9)
    step.schedule(whole, 10)
    step.grow(whole, 1)

    assert [step.drop(request) for request in (part, whole, idle)] == [9, 10, 0]

    assert [(r.num_tokens, r.num_computed_tokens, r.num_in_flight) for r in (part, whole)] == [
        (10, 0, 0)
    ] * 2
    flight = step.build(1, freed_rows=[])
    assert flight.requests == [stays]
    assert flight.plan.new_blocks is None
