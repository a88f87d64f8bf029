from __future__ import annotations

import httpx
import pytest

from octavo import __version__
from octavo.testing.fake_llm import FakeLLM
from tests.unit.api.http.reading import refusal


def test_models_have_their_length(client: httpx.Client) -> None:
    data = client.get("/v1/models").json()

    assert data["object"] == "list"
    assert [card["id"] for card in data["data"]] == ["fake", "alias"]
    assert data["data"][0]["object"] == "model"
    assert data["data"][0]["max_model_len"] == 4096


def test_one_model_is_found_by_name_or_is_a_404(client: httpx.Client) -> None:
    assert client.get("/v1/models/alias").json()["id"] == "alias"
    answer = client.get("/v1/models/some/other")
    assert answer.status_code == 404
    assert refusal(answer)["param"] == "model"


def test_version_and_metrics_are_served(client: httpx.Client) -> None:
    assert client.get("/version").json() == {"version": __version__}
    page = client.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "octavo:fake 1.0" in page.text


def test_tokenize_gives_ids_and_their_count(client: httpx.Client) -> None:
    answer = client.post("/tokenize", json={"prompt": "ab", "return_token_strs": True}).json()

    assert answer == {
        "count": 3,
        "max_model_len": 4096,
        "tokens": [1, 97, 98],
        "token_strs": ["\x01", "a", "b"],
    }


def test_tokenize_renders_messages_without_special_tokens(client: httpx.Client) -> None:
    messages = [{"role": "user", "content": "x"}]

    whole = client.post("/tokenize", json={"messages": messages}).json()
    bare = client.post(
        "/tokenize", json={"messages": messages, "add_generation_prompt": False}
    ).json()

    assert "".join(map(chr, whole["tokens"])) == "<user>x\n<assistant>"
    assert "".join(map(chr, bare["tokens"])) == "<user>x"


def test_tokenize_wants_a_prompt_or_messages(client: httpx.Client) -> None:
    messages = [{"role": "user", "content": "x"}]

    assert client.post("/tokenize", json={}).status_code == 400
    both = client.post("/tokenize", json={"prompt": "x", "messages": messages})
    assert both.status_code == 400
    assert client.post("/tokenize", json={"prompt": ""}).status_code == 200


def test_detokenize_is_the_inverse(client: httpx.Client) -> None:
    assert client.post("/detokenize", json={"tokens": [97, 98]}).json() == {"prompt": "ab"}
    assert client.post("/detokenize", json={"tokens": []}).json() == {"prompt": ""}


@pytest.mark.parametrize("token_id", [2**63, -1, 10**9, "a", True, 1.5, None])
def test_a_bad_token_id_is_a_400_that_names_tokens(client: httpx.Client, token_id: object) -> None:
    answer = client.post("/detokenize", json={"tokens": [1, token_id]})

    assert answer.status_code == 400
    assert refusal(answer)["param"].startswith("tokens")
    assert "tokens" in refusal(answer)["message"]


@pytest.mark.parametrize("path", ["/tokenize", "/detokenize"])
def test_token_routes_know_their_model(client: httpx.Client, path: str) -> None:
    body = {"prompt": "x", "tokens": [1]}

    assert client.post(path, json=body | {"model": "fake"}).status_code == 200
    assert client.post(path, json=body | {"model": "other"}).status_code == 404


def test_resetting_the_prefix_cache_succeeds_also_where_it_is_empty(
    client: httpx.Client, llm: FakeLLM
) -> None:
    answer = client.post("/reset_prefix_cache")

    assert answer.json() == {"success": True}
    assert llm.calls == ["reset_prefix_cache()"]


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:1"])
def test_a_page_of_another_origin_resets_nothing(
    client: httpx.Client, llm: FakeLLM, origin: str
) -> None:
    headers = {"Origin": origin, "Content-Type": "text/plain"}

    answer = client.post("/reset_prefix_cache", headers=headers, content=b"")

    assert answer.status_code == 403
    assert refusal(answer)["code"] == "cross_origin"
    assert llm.calls == []


def test_a_page_of_the_server_itself_may_reset(client: httpx.Client) -> None:
    headers = {"Origin": str(client.base_url).rstrip("/")}

    assert client.post("/reset_prefix_cache", headers=headers).status_code == 200
