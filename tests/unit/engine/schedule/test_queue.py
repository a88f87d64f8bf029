from __future__ import annotations

import random

import pytest

from octavo.engine.schedule.queue import WaitingQueue
from tests.unit.engine.make import make_request


@pytest.mark.parametrize("seed", range(20))
def test_the_queue_is_a_sorted_list(seed):
    rng, queue, plain = random.Random(seed), WaitingQueue(short_limit=8), []
    for number in range(300):
        if plain and rng.random() < 0.45:
            gone = rng.sample(plain, rng.randint(1, min(3, len(plain))))
            queue.remove_all(gone)
            plain = [request for request in plain if request not in gone]
        else:
            request = make_request(
                range(rng.choice([4, 8, 9, 30])),
                sequence=number,
                arrival_time=rng.randrange(5),
                priority=rng.randrange(3),
            )
            queue.add(request)
            plain.append(request)
        plain.sort(key=lambda request: request.order)
        assert list(queue) == plain
        assert len(queue) == len(plain)
        assert queue.num_short == sum(len(request.token_ids) <= 8 for request in plain)
