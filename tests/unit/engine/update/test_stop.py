from __future__ import annotations

import pytest

from octavo.contracts.output import FinishReason
from octavo.engine.update.stop import finish_reason, stop_reason
from tests.unit.engine.make import make_request


def after(tokens: list[int], **sampling):
    request = make_request([1, 2, 3], **sampling)
    request.token_ids += tokens
    return request


@pytest.mark.parametrize(
    ("tokens", "min_tokens", "max_tokens", "reason"),
    [
        ([7], 0, 5, None),
        ([9], 0, 5, FinishReason.STOP),
        ([7, 9], 1, 5, FinishReason.STOP),
        ([7, 9], 2, 5, None),
        ([7, 7, 7, 7, 7], 0, 5, FinishReason.LENGTH),
        ([7, 7, 7, 7, 9], 0, 5, FinishReason.STOP),
        ([7, 9], 2, 2, FinishReason.LENGTH),
    ],
)
def test_an_answer_ends_with_a_stop_token_or_at_its_length(tokens, min_tokens, max_tokens, reason):
    request = after(tokens, min_tokens=min_tokens, max_tokens=max_tokens, stop_token_ids=[9])

    assert finish_reason(request, tokens[-1]) is reason


def test_the_end_of_text_is_no_stop_reason():
    assert stop_reason(after([9], stop_token_ids=[9])) == 9
    assert stop_reason(after([9], stop_token_ids=[9], eos_token_ids=[9])) is None
