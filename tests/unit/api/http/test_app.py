from __future__ import annotations

import httpx
import openai
import pytest

from octavo.api.frontend.bounds import (
    MAX_BAD_WORD_CHARS,
    MAX_LOGIT_BIAS,
    MAX_STOP_CHARS,
    MAX_STOP_STRINGS,
)
from octavo.api.http.openapi import Application
from octavo.testing.fake_llm import FakeLLM
from tests.unit.api.http.conftest import Serve
from tests.unit.api.http.reading import refusal

CHAT = {"model": "fake", "messages": [{"role": "user", "content": "Capital?"}]}


@pytest.fixture
def official(client: httpx.Client) -> openai.OpenAI:
    return openai.OpenAI(
        api_key="none", base_url=f"{client.base_url}/v1", http_client=client, max_retries=0
    )


def test_the_openai_client_reads_whole_and_streamed_chats(
    official: openai.OpenAI, llm: FakeLLM
) -> None:
    whole = official.chat.completions.create(**CHAT)
    streamed = official.chat.completions.create(**CHAT, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in streamed)

    assert whole.choices[0].message.content == llm.answer == text


def test_the_openai_client_reads_whole_and_streamed_completions(
    official: openai.OpenAI, llm: FakeLLM
) -> None:
    whole = official.completions.create(model="fake", prompt="x", max_tokens=99)
    streamed = official.completions.create(model="fake", prompt="x", max_tokens=99, stream=True)

    assert whole.choices[0].text == llm.answer
    assert "".join(chunk.choices[0].text for chunk in streamed) == llm.answer


def test_the_openai_client_lists_models(official: openai.OpenAI) -> None:
    assert [model.id for model in official.models.list()] == ["fake", "alias"]
    assert official.models.retrieve("alias").id == "alias"


def test_the_openai_client_names_the_field_of_a_bad_request(official: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match=r"temperature=-1") as caught:
        official.chat.completions.create(**CHAT, temperature=-1)

    assert caught.value.param == "temperature"


def test_the_openai_client_reads_an_error_inside_a_stream(
    official: openai.OpenAI, llm: FakeLLM
) -> None:
    llm.failure = RuntimeError("secret")

    stream = official.chat.completions.create(**CHAT, stream=True)

    with pytest.raises(openai.APIError, match="its log has the cause"):
        list(stream)


def test_an_unknown_path_is_a_404_in_openais_shape(client: httpx.Client) -> None:
    answer = client.get("/v1/nothing")

    assert answer.status_code == 404
    assert "/v1/nothing" in refusal(answer)["message"]


def test_a_wrong_method_is_a_405_in_openais_shape(client: httpx.Client) -> None:
    answer = client.get("/v1/completions")

    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert "does not take GET" in refusal(answer)["message"]


def test_head_is_get_without_a_body(client: httpx.Client) -> None:
    answer = client.head("/health")

    assert (answer.status_code, answer.content) == (200, b"")
    assert client.head("/v1/completions").status_code == 405


def test_no_other_origin_is_let_in(client: httpx.Client) -> None:
    answer = client.options(
        "/v1/completions",
        headers={"Origin": "http://elsewhere", "Access-Control-Request-Method": "POST"},
    )

    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_every_reference_of_the_openapi_document_is_defined(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    schemas = document["components"]["schemas"]

    def references(node: object) -> set[str]:
        if isinstance(node, dict):
            own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
            return own.union(*map(references, node.values()))
        return set().union(*map(references, node)) if isinstance(node, list) else set()

    assert {name.removeprefix("#/components/schemas/") for name in references(document)} <= set(
        schemas
    )
    assert "temperature" in schemas["ChatCompletionRequest"]["properties"]
    assert "choices" in schemas["ChatCompletion"]["properties"]


def test_every_route_is_in_the_openapi_document(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]

    assert set(paths) == {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/models",
        "/v1/models/{name}",
        "/tokenize",
        "/detokenize",
        "/reset_prefix_cache",
        "/health",
        "/ready",
        "/version",
        "/metrics",
    }


def test_the_page_of_the_api_loads_nothing_from_elsewhere(client: httpx.Client) -> None:
    page = client.get("/docs")

    assert page.status_code == 200
    assert "//" not in page.text.replace("https://", "//").split("<script>")[0]
    assert " src=" not in page.text
    assert "<link" not in page.text


def test_the_document_is_made_once() -> None:
    app = Application()

    assert app.openapi() is app.openapi()


def test_a_request_before_ready_is_a_503_with_retry_after(llm: FakeLLM, serve: Serve) -> None:
    llm.is_ready = False
    client = serve(llm)

    answer = client.post("/v1/chat/completions", json=CHAT)

    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert refusal(answer)["code"] == "not_ready"
    assert client.get("/health").status_code == 200
    assert client.get("/ready").status_code == 503
    assert client.get("/v1/models").status_code == 200


def test_a_request_after_the_engines_death_is_a_503_that_says_why(
    llm: FakeLLM, serve: Serve
) -> None:
    llm.is_alive, llm.dead_reason = False, "out of memory"
    client = serve(llm)

    answer = client.post("/v1/chat/completions", json=CHAT)

    assert answer.status_code == 503
    assert "out of memory" in refusal(answer)["message"]
    assert client.get("/health").status_code == 503
    assert client.get("/ready").json()["reason"] == "out of memory"


def test_the_document_has_the_bounds_that_are_enforced(client: httpx.Client, llm: FakeLLM) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    chat = schemas["ChatCompletionRequest"]["properties"]

    assert chat["stop"]["items"]["maxLength"] == MAX_STOP_CHARS
    assert chat["stop"]["maxItems"] == MAX_STOP_STRINGS
    assert chat["bad_words"]["items"]["maxLength"] == MAX_BAD_WORD_CHARS
    assert chat["logit_bias"]["maxProperties"] == MAX_LOGIT_BIAS
    assert chat["repetition_penalty"]["anyOf"][0]["minimum"] == 0.01
    limit = llm.config.frontend.max_logprobs
    assert chat["top_logprobs"]["anyOf"][0]["maximum"] == limit
    plain = schemas["CompletionRequest"]["properties"]
    assert plain["logprobs"]["anyOf"][0]["maximum"] == limit


def test_top_logprobs_and_logit_bias_are_refused_by_their_names(
    client: httpx.Client, llm: FakeLLM
) -> None:
    limit = llm.config.frontend.max_logprobs
    many = {str(token_id): 1.0 for token_id in range(MAX_LOGIT_BIAS + 1)}

    tops = client.post(
        "/v1/chat/completions", json=CHAT | {"logprobs": True, "top_logprobs": limit + 1}
    )
    biased = client.post("/v1/chat/completions", json=CHAT | {"logit_bias": many})

    assert refusal(tops)["param"] == "top_logprobs"
    assert f"to {limit}" in refusal(tops)["message"]
    assert refusal(biased)["param"] == "logit_bias"
    assert f"{len(many)} items: must have at most {MAX_LOGIT_BIAS}" in refusal(biased)["message"]


def test_every_refusal_has_a_code_that_is_a_text(client: httpx.Client, llm: FakeLLM) -> None:
    llm.refused_prompt = "no"

    answers = [
        client.get("/v1/nothing"),
        client.get("/v1/completions"),
        client.post("/v1/completions", json={"prompt": "no"}),
    ]

    codes = [refusal(answer)["code"] for answer in answers]
    assert codes == ["not_found", "method_not_allowed", "invalid_value"]
