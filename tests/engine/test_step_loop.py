from __future__ import annotations

from dataclasses import replace

import pytest

from octavo.testing.fake_config import fake_config, fake_scheduler_config
from tests.engine.harness import Engine, request

LIMITS = [(8, 64, 257), (4, 7, 80), (3, 5, 66), (1, 1, 65)]


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("prefix_caching", [False, True])
@pytest.mark.parametrize(("max_num_seqs", "max_tokens", "num_blocks"), LIMITS)
def test_answers_do_not_depend_on_limits_or_neighbours(
    overlap, prefix_caching, max_num_seqs, max_tokens, num_blocks
):
    config = fake_config(
        fake_scheduler_config(
            max_num_batched_tokens=max_tokens, max_num_seqs=max_num_seqs, overlap=overlap
        ),
        num_blocks=num_blocks,
        prefix_caching=prefix_caching,
    )
    engine = Engine(config)
    requests = [
        request(f"r{i}", range(i % 5, i % 5 + 30 + i), 40, stop_token_ids=list(range(8)))
        for i in range(20)
    ]
    for each in requests:
        engine.add(each)

    engine.run()

    engine.assert_answers(*requests)
    engine.assert_everything_is_free()


@pytest.mark.parametrize("overlap", [False, True])
def test_a_pool_that_is_too_small_preempts_and_loses_nothing(overlap):
    scheduler = fake_scheduler_config(max_model_len=64, overlap=overlap)
    engine = Engine(fake_config(scheduler, num_blocks=18))
    requests = [request(f"r{i}", range(i, i + 6), 50) for i in range(12)]
    for each in requests:
        engine.add(each)

    engine.run()

    assert engine.core.table.num_preempted > 0
    engine.assert_answers(*requests)
    engine.assert_everything_is_free()


def test_overlap_takes_one_step_more_for_a_single_request():
    config = fake_config()
    plain = Engine(replace(config, scheduler=replace(config.scheduler, overlap=False)))
    overlapped = Engine(config)
    for engine in (plain, overlapped):
        engine.add(request("r", range(5), 10))
        engine.run()

    assert plain.num_steps == 10
    assert overlapped.num_steps == 11
