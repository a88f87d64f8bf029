from __future__ import annotations

import random
from dataclasses import replace

import pytest

from octavo.engine.schedule.budget import StepBudget, short_limit
from octavo.testing.fake_config import fake_scheduler_config

CONFIG = fake_scheduler_config(max_num_batched_tokens=64, max_num_seqs=8)


def test_long_prompts_leave_what_is_reserved():
    budget = StepBudget.full(CONFIG, num_reserved_tokens=16)

    assert budget.take(100) == 48
    assert budget.take(100) == 0
    assert budget.take(16) == 16


def test_nothing_is_kept_when_nothing_is_reserved():
    assert StepBudget.full(CONFIG, num_reserved_tokens=0).take(100) == 64


def test_what_is_given_back_can_be_taken_again():
    budget = StepBudget.full(CONFIG, num_reserved_tokens=16)
    granted = budget.take(100)

    budget.give_back(100, granted)

    assert budget == StepBudget.full(CONFIG, num_reserved_tokens=16)


@pytest.mark.parametrize(
    ("tokens", "share", "limit"), [(64, 0.25, 16), (1, 0.25, 1), (8, 0.0, 1), (64, 1.0, 63)]
)
def test_a_short_prompt_has_a_token_and_a_long_one_keeps_one(tokens, share, limit):
    config = replace(
        CONFIG, max_num_batched_tokens=tokens, max_num_seqs=1, short_prompt_share=share
    )

    assert short_limit(config) == limit
    assert StepBudget.full(config, num_reserved_tokens=limit).take(1000) >= 1


@pytest.mark.parametrize("seed", range(20))
def test_grants_never_exceed_the_budget(seed):
    rng = random.Random(seed)
    budget = StepBudget.full(CONFIG, num_reserved_tokens=rng.choice([0, 16]))
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
