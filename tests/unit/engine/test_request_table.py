from __future__ import annotations

import random

import pytest

from octavo.engine.request import RequestStatus
from octavo.engine.request_table import RequestTable
from octavo.engine.schedule.queue import WaitingQueue
from tests.unit.engine.make import make_request


def make_table(max_rows: int = 4) -> RequestTable:
    return RequestTable(WaitingQueue(short_limit=8), max_rows=max_rows)


def start(table: RequestTable, request) -> None:
    table.waiting.remove(request)
    table.start(request)


def test_a_request_waits_runs_and_ends():
    table, request = make_table(), make_request()

    table.add(request)
    assert table.find("r1") is request
    start(table, request)
    assert (request.status, request.row) == (RequestStatus.RUNNING, 0)
    table.finish(request)

    assert table.find("r1") is None
    assert request.row == 0, "a plan in flight may still name it"
    table.leave_row(request)
    assert table.freed_rows == [0]


def test_a_waiting_request_can_end():
    table, request = make_table(), make_request()
    table.add(request)

    table.finish(request)

    assert len(table) == len(table.waiting) == 0


def test_a_preempted_request_waits_and_has_computed_nothing():
    table, request = make_table(), make_request()
    table.add(request)
    start(table, request)
    request.num_computed_tokens = 7

    table.preempt(request)

    assert (request.row, request.num_computed_tokens) == (-1, 0)
    assert list(table.waiting) == [request]
    assert table.freed_rows == [0]
    assert table.num_preempted == 1


def test_forgotten_rows_are_free_and_not_told():
    table, request = make_table(max_rows=1), make_request()
    table.add(request)
    start(table, request)
    table.preempt(request)

    table.forget_rows()

    assert table.freed_rows == []
    assert table.has_free_row


@pytest.mark.parametrize("seed", range(10))
def test_no_row_has_two_requests_and_none_is_lost(seed):
    rng, table, live, left = random.Random(seed), make_table(6), [], []
    for number in range(400):
        move = rng.random()
        if move < 0.4:
            request = make_request(sequence=number)
            table.add(request)
            live.append(request)
        elif move < 0.7 and table.waiting and table.has_free_row:
            start(table, next(iter(table.waiting)))
        elif move < 0.8 and table.running:
            table.preempt(rng.choice(list(table.running)))
        elif move < 0.9 and live:
            request = live.pop(rng.randrange(len(live)))
            table.finish(request)
            left += [request] if request.row >= 0 else []
        elif left:
            table.leave_row(left.pop())
        rows = [request.row for request in [*table.running, *left]]
        assert len(set(rows)) == len(rows)
        assert set(rows) <= set(range(6))
        assert len(table) == len(table.running) + len(table.waiting) == len(live)
        assert table.has_free_row == (len(rows) < 6)
