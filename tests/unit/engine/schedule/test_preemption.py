from __future__ import annotations

from octavo.engine.schedule.preemption import choose_victim, weaker_victim
from tests.unit.engine.make import make_request


def running(sequence: int, *, priority: int = 0, computed: int = 10):
    request = make_request(sequence=sequence, arrival_time=float(sequence), priority=priority)
    request.num_computed_tokens = computed
    request.num_tokens = computed + 1
    return request


def test_the_lowest_priority_goes_first_whatever_it_loses():
    first, low, high = running(1), running(2, priority=5, computed=15), running(3, computed=1)

    assert choose_victim([first, low, high]) is low


def test_of_equal_priority_the_one_that_loses_least_goes():
    first, much, little = running(1), running(2, computed=15), running(3, computed=5)

    assert choose_victim([first, much, little]) is little


def test_of_equal_loss_the_last_in_order_goes():
    requests = [running(1), running(3), running(2)]

    assert choose_victim(requests) is requests[1]


def test_the_first_in_order_stays_though_it_would_lose_least():
    first, other = running(1, computed=1), running(2, computed=15)

    assert choose_victim([other, first]) is other


def test_a_request_alone_is_its_own_victim():
    only = running(1)

    assert choose_victim([only]) is only


def test_who_has_nothing_left_to_compute_loses_nothing():
    first, ending, other = running(1), running(2, computed=29), running(3, computed=2)
    ending.num_tokens = ending.max_tokens

    assert choose_victim([first, ending, other]) is ending
    assert weaker_victim([other, ending]) is ending
