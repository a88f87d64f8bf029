from __future__ import annotations

import pytest

from octavo.engine.request import RequestStatus
from octavo.engine.schedule.quarantine import Quarantine
from tests.unit.engine.make import make_request


def suspects(count: int):
    return [make_request(sequence=n, arrival_time=float(n)) for n in range(count)]


def test_nobody_is_held_back_without_a_failure():
    assert not Quarantine()


def test_the_first_half_runs_alone_until_each_has_a_token_or_has_ended():
    quarantine, (a, b, c) = Quarantine(), suspects(3)
    quarantine.suspect([a, b, c])

    assert quarantine.members == [a, b]
    a.token_ids.append(5)
    assert not quarantine.advance()
    b.status = RequestStatus.FINISHED

    assert quarantine.advance()
    assert quarantine.members == [c]
    c.token_ids.append(5)
    assert quarantine.advance()
    assert not quarantine


def test_a_group_that_fails_is_split_before_the_others_are_tried():
    quarantine, (a, b, c, d) = Quarantine(), suspects(4)
    quarantine.suspect([a, b, c, d])

    quarantine.suspect([a, b])

    assert quarantine.members == [a]
    a.token_ids.append(5)
    quarantine.advance()
    assert quarantine.members == [b]
    b.token_ids.append(5)
    quarantine.advance()
    assert quarantine.members == [c, d]


@pytest.mark.parametrize("poisoned", range(16))
def test_one_among_sixteen_is_found_with_four_failures(poisoned):
    quarantine, requests = Quarantine(), suspects(16)
    quarantine.suspect(requests)
    failures = 0
    while quarantine:
        group = quarantine.members
        if requests[poisoned] in group:
            failures += 1
            if len(group) == 1:
                requests[poisoned].status = RequestStatus.FINISHED
            else:
                quarantine.suspect(group)
        else:
            for request in group:
                request.token_ids.append(5)
        quarantine.advance()

    assert failures == 4
