from __future__ import annotations

import pytest

from tests.unit.engine.make import make_request


@pytest.mark.parametrize(
    ("prompt", "output", "max_tokens", "max_model_len", "length"),
    [(10, 0, 5, 100, 15), (10, 0, 500, 100, 100), (10, 3, 5, 100, 18)],
)
def test_a_request_ends_by_length_at_its_own_limit_or_the_models(
    prompt, output, max_tokens, max_model_len, length
):
    request = make_request(
        range(prompt),
        output=(1,) * output,
        max_tokens=max_tokens,
        max_model_len=max_model_len,
    )

    assert request.max_tokens == length


def test_the_last_token_by_length_is_never_pending():
    request = make_request(range(10), max_tokens=1)
    assert request.num_pending_tokens == 10

    request.num_computed_tokens, request.num_tokens = 10, 11

    assert request.num_pending_tokens == 0


def test_tokens_emitted_before_count_for_min_tokens():
    assert make_request(range(10), output=(1, 2), min_tokens=4).min_tokens == 14


def test_priority_comes_before_arrival_and_arrival_before_intake():
    orders = [
        make_request(priority=0, arrival_time=1.0, sequence=2).order,
        make_request(priority=0, arrival_time=1.0, sequence=3).order,
        make_request(priority=0, arrival_time=2.0, sequence=1).order,
        make_request(priority=1, arrival_time=0.0, sequence=0).order,
    ]

    assert orders == sorted(orders)


def test_prompt_logprobs_are_wanted_until_all_are_sent():
    request = make_request(range(3), prompt_logprobs=0)
    assert request.wants_prompt_logprobs

    request.num_prompt_logprobs = 2

    assert not request.wants_prompt_logprobs
