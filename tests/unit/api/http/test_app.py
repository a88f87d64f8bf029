from __future__ import annotations

import httpx
import openai
import pytest

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
