"""The bounded intake."""

from __future__ import annotations

import random

import pytest

from octavo.api.frontend.admission import Admission, Ticket
from octavo.kit.errors import Overloaded, RequestRefused


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_requests_beyond_the_bound_are_refused_until_one_leaves() -> None:
    admission = Admission(max_requests=2, max_tokens=100)
    first, _ = admission.enter(1), admission.enter(1)

    with pytest.raises(Overloaded, match="2 requests run or wait, at most 2 may"):
        admission.enter(1)
    first.close()

    admission.enter(1)


def test_tokens_beyond_the_bound_are_refused_and_counted_not_at_all() -> None:
    admission = Admission(max_requests=9, max_tokens=100)
    admission.enter(1).charge(60)

    with pytest.raises(Overloaded, match="this one has 41, at most 100 may"):
        admission.enter(1).charge(41)

    assert admission.num_tokens == 60
    admission.enter(1).charge(40)


def test_a_prompt_that_comes_alone_always_fits() -> None:
    admission = Admission(max_requests=9, max_tokens=100)

    admission.enter(1).charge(1000)

    assert admission.num_tokens == 1000


def test_more_answers_than_ever_fit_are_the_clients_fault() -> None:
    with pytest.raises(RequestRefused, match="n=3") as caught:
        Admission(max_requests=2, max_tokens=1).enter(3)
    assert (caught.value.status, caught.value.param) == (400, "n")


def test_closing_a_ticket_twice_gives_back_once() -> None:
    admission = Admission(max_requests=2, max_tokens=100)
    ticket = admission.enter(2)
    ticket.charge(10)

    ticket.close()
    ticket.close()

    assert (admission.num_requests, admission.num_tokens) == (0, 0)


def test_retry_after_follows_the_measured_rate_within_its_bounds() -> None:
    clock = Clock()
    admission = Admission(max_requests=10, max_tokens=10**6, clock=clock)

    def refusal(wanted: int) -> float:
        with pytest.raises(Overloaded) as caught:
            admission.enter(wanted)
        return caught.value.retry_after_s

    tickets = [admission.enter(1) for _ in range(10)]
    assert refusal(1) == 1.0  # nothing is known yet
    for ticket in tickets[:5]:
        clock.now += 4.0
        ticket.close()
        tickets.append(admission.enter(1))
    assert refusal(1) == pytest.approx(16 / 5)
    assert refusal(4) == pytest.approx(4 * 16 / 5)
    clock.now += 10_000
    assert refusal(1) == 60.0


@pytest.mark.parametrize("seed", range(5))
def test_counts_are_those_of_the_open_tickets(seed: int) -> None:
    rng, admission = random.Random(seed), Admission(max_requests=20, max_tokens=500)
    live: list[tuple[Ticket, int, int]] = []
    for _ in range(2000):
        if live and rng.random() < 0.5:
            live.pop(rng.randrange(len(live)))[0].close()
        else:
            num_requests, num_tokens = rng.randint(1, 5), rng.randint(1, 200)
            try:
                ticket = admission.enter(num_requests)
            except Overloaded:
                continue
            try:
                ticket.charge(num_tokens)
            except Overloaded:
                ticket.close()
                continue
            live.append((ticket, num_requests, num_tokens))

        assert admission.num_requests == sum(requests for _, requests, _ in live) <= 20
        assert admission.num_tokens == sum(tokens for *_, tokens in live) <= 500
