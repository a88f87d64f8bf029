from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.api.http.body import parse
from octavo.api.http.schema.openai import ChatCompletionRequest, CompletionRequest
from octavo.kit.errors import RequestRefused
from octavo.testing.fake_llm import FakeLLM
from tests.unit.api.http.conftest import Serve
from tests.unit.api.http.reading import refusal

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[1,]", b'{"prompt": "x"} y', b"\xff\xfe", b"nul", b'{"prompt": "\xff"}', b"'x'"],
)
def test_what_is_not_json_is_a_400(client: httpx.Client, data: bytes) -> None:
    answer = client.post("/v1/completions", content=data, headers=JSON)

    assert answer.status_code == 400
    assert refusal(answer)["code"] == "invalid_json"
    assert "not JSON" in refusal(answer)["message"]


@pytest.mark.parametrize("data", ["[]", "null", "3", '"text"', "true"])
def test_json_that_is_no_object_is_a_400(client: httpx.Client, data: str) -> None:
    answer = client.post("/v1/completions", content=data, headers=JSON)

    assert answer.status_code == 400
    assert "must be a JSON object" in refusal(answer)["message"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_another_content_type_is_a_415_that_names_json(client: httpx.Client, kind: str) -> None:
    headers = {"Content-Type": kind} if kind else {}
    answer = client.post("/v1/completions", content=b'{"prompt": "x"}', headers=headers)

    assert answer.status_code == 415
    assert "application/json" in refusal(answer)["message"]


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/merge+json"]
)
def test_json_by_other_names_is_taken(client: httpx.Client, kind: str) -> None:
    headers = {"Content-Type": kind}
    answer = client.post("/v1/completions", content=b'{"prompt": "x"}', headers=headers)

    assert answer.status_code == 200


def test_deep_nesting_is_a_400(client: httpx.Client) -> None:
    for data in ("[" * 100_000, '{"prompt":' + "[" * 100_000, '{"a":' * 50_000):
        answer = client.post("/v1/completions", content=data, headers=JSON)
        assert answer.status_code == 400


def test_deep_nesting_in_a_free_field_is_a_400_or_is_served(client: httpx.Client) -> None:
    for depth in (50, 150, 190, 250):
        deep = '{"a":' * depth + "1" + "}" * depth
        data = f'{{"messages":[{{"role":"user","content":"x"}}],"metadata":{deep}}}'
        answer = client.post("/v1/chat/completions", content=data, headers=JSON)
        assert answer.status_code in (200, 400)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_a_number_that_is_not_finite_is_a_400_that_names_its_field(
    client: httpx.Client, value: str
) -> None:
    for field in ("temperature", "top_p", "presence_penalty", "min_p"):
        data = f'{{"prompt": "x", "{field}": {value}}}'
        answer = client.post("/v1/completions", content=data, headers=JSON)
        assert answer.status_code == 400
        assert refusal(answer)["param"] == field


def test_a_number_of_a_million_digits_is_a_400(client: httpx.Client) -> None:
    data = '{"prompt": "x", "seed": %s}' % ("9" * 1_000_000)
    answer = client.post("/v1/completions", content=data, headers=JSON)

    assert answer.status_code == 400


def test_half_a_surrogate_pair_is_a_400(client: httpx.Client) -> None:
    answer = client.post("/v1/completions", content=b'{"prompt": "\\ud800"}', headers=JSON)

    assert answer.status_code == 400


def test_a_body_at_the_limit_is_read_and_one_byte_more_is_a_413(llm: FakeLLM, serve: Serve) -> None:
    frame = json.dumps({"prompt": ""})
    client = serve(llm, max_body_bytes=1000)

    fits = client.post(
        "/v1/completions", content=json.dumps({"prompt": "x" * (1000 - len(frame))}), headers=JSON
    )
    over = client.post(
        "/v1/completions", content=json.dumps({"prompt": "x" * (1001 - len(frame))}), headers=JSON
    )

    assert fits.status_code == 200
    assert over.status_code == 413
    assert "1000 bytes" in refusal(over)["message"]


def test_a_body_without_a_length_is_bounded_too(llm: FakeLLM, serve: Serve) -> None:
    client = serve(llm, max_body_bytes=1000)

    def pieces() -> Iterator[bytes]:
        yield b'{"prompt": "'
        for _ in range(100):
            yield b"x" * 100
        yield b'"}'

    answer = client.post("/v1/completions", content=pieces(), headers=JSON)

    assert answer.status_code == 413
    assert llm.prompts == []


def test_ten_megabytes_are_read_where_the_limit_allows(llm: FakeLLM, serve: Serve) -> None:
    client = serve(llm, max_body_bytes=32 << 20)
    llm.answer = "y"

    answer = client.post("/v1/completions", json={"prompt": "x" * (10 << 20)})

    assert answer.status_code == 200
    assert answer.json()["usage"]["prompt_tokens"] == 10 << 20


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(
    field=st.sampled_from(sorted(ChatCompletionRequest.model_fields)),
    value=json_values,
)
def test_any_value_in_any_field_of_a_chat_is_taken_or_refused(field: str, value: object) -> None:
    body = {"messages": [{"role": "user", "content": "x"}], field: value}
    check(ChatCompletionRequest, body)


@given(field=st.sampled_from(sorted(CompletionRequest.model_fields)), value=json_values)
def test_any_value_in_any_field_of_a_completion_is_taken_or_refused(
    field: str, value: object
) -> None:
    check(CompletionRequest, {"prompt": "x", field: value})


def check(schema: type[ChatCompletionRequest | CompletionRequest], body: object) -> None:
    with contextlib.suppress(RequestRefused):
        parse(schema, json.dumps(body).encode()).to_sampling()
