from __future__ import annotations

import random
from dataclasses import replace

import pytest

from octavo.engine.schedule.budget import StepBudget, short_limit
from octavo.testing.fake_config import fake_scheduler_config

CONFIG = fake_scheduler_config(max_num_batched_tokens=64, max_num_seqs=8)


def test_long_prompts_leave_what_is_kept_for_short_ones():
    budget = StepBudget.full(CONFIG)
    budget.keep_for_short(0.25)

    assert budget.take(100) == 48
    assert budget.take(100) == 0
    assert budget.take(16) == 16


def test_what_is_kept_is_a_share_of_what_answers_leave():
    budget = StepBudget.full(CONFIG)
    for _ in range(24):
        budget.take(1)
    budget.keep_for_short(0.25)

    assert budget.take(100) == 30
    assert budget.take(16) == 10


def test_nothing_is_kept_without_a_reason():
    assert StepBudget.full(CONFIG).take(100) == 64


def test_what_is_given_back_can_be_taken_again():
    budget = StepBudget.full(CONFIG)
    granted = budget.take(100)

    budget.give_back(100, granted)

    assert budget == StepBudget.full(CONFIG)


@pytest.mark.parametrize(
    ("tokens", "share", "limit"), [(64, 0.25, 16), (1, 0.25, 1), (8, 0.0, 1), (64, 1.0, 63)]
)
def test_a_short_prompt_has_a_token_and_a_long_one_keeps_one(tokens, share, limit):
    config = replace(
        CONFIG, max_num_batched_tokens=tokens, max_num_seqs=1, short_prompt_share=share
    )

    assert short_limit(config) == limit
    budget = StepBudget.full(config)
    budget.keep_for_short(share)
    assert budget.take(1000) >= 1


@pytest.mark.parametrize("seed", range(20))
def test_grants_never_exceed_the_budget(seed):
    rng = random.Random(seed)
    budget = StepBudget.full(CONFIG)
    budget.keep_for_short(rng.choice([0.0, 0.25, 1.0]))
    spent = 0
    for _ in range(50):
        pending = rng.choice([1, 1, 5, 16, 17, 200])
        granted = budget.take(pending)
        assert 0 <= granted <= pending
        if rng.random() < 0.2:
            budget.give_back(pending, granted)
        else:
            spent += granted
        assert budget.tokens == 64 - spent >= 0
