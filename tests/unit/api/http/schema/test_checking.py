from __future__ import annotations

import pytest

from octavo.api.http.schema.checking import checked, field_path, shown
from octavo.api.http.schema.openai import ChatCompletionRequest, DetokenizeRequest
from octavo.kit.errors import RequestRefused


def test_a_place_in_a_body_reads_like_code() -> None:
    assert field_path(("messages", 0, "content", 2, "text")) == "messages[0].content[2].text"
    assert field_path(()) == ""


def test_a_refusal_names_the_place_the_value_and_the_bound() -> None:
    with pytest.raises(RequestRefused) as caught:
        checked(DetokenizeRequest.model_validate, {"tokens": [1, -5]}, at="body")

    assert caught.value.message == "body.tokens[1]=-5: must be at least 0."
    assert caught.value.param == "body.tokens[1]"


def test_a_long_value_is_cut_or_described() -> None:
    assert len(shown("x" * 1000)) < 120
    assert shown([1] * 1000) == "a list of 1000 items"
    assert shown([1, 2]) == "[1, 2]"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (5, "messages[0].content=5: must be a string or a list."),
        ([5], "messages[0].content[0]=5: must be an object."),
        ([{"text": "x"}], "messages[0].content[0].type: is required."),
    ],
)
def test_a_field_of_several_kinds_is_named_without_the_kind(content: object, message: str) -> None:
    body = {"messages": [{"role": "user", "content": content}]}

    with pytest.raises(RequestRefused) as caught:
        checked(ChatCompletionRequest.model_validate, body)

    assert caught.value.message == message
    assert caught.value.param == message.partition("=")[0].partition(":")[0]
