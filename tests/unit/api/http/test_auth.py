from __future__ import annotations

import httpx
import pytest

from octavo.testing.fake_llm import FakeLLM
from tests.unit.api.http.conftest import Serve
from tests.unit.api.http.reading import refusal


@pytest.fixture
def locked(llm: FakeLLM, serve: Serve) -> httpx.Client:
    return serve(llm, api_keys=("first key", "second"))


@pytest.mark.parametrize("key", ["first key", "second"])
def test_each_of_the_keys_opens(locked: httpx.Client, key: str) -> None:
    answer = locked.get("/v1/models", headers={"Authorization": f"Bearer {key}"})

    assert answer.status_code == 200


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer secon", "Bearer second2", "Basic second", "second"]
)
def test_anything_else_is_a_401_that_asks_for_a_bearer_key(
    locked: httpx.Client, header: str
) -> None:
    answer = locked.get("/v1/models", headers={"Authorization": header} if header else {})

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert refusal(answer)["code"] == "invalid_api_key"
    assert "x-request-id" in answer.headers


def test_a_key_of_bytes_that_are_no_text_is_refused(locked: httpx.Client) -> None:
    answer = locked.get("/v1/models", headers=[(b"authorization", b"Bearer \xff\xfe")])

    assert answer.status_code == 401


def test_only_probes_and_the_description_are_open(locked: httpx.Client) -> None:
    for path in ("/health", "/ready", "/docs", "/openapi.json"):
        assert locked.get(path).status_code == 200, path
    for path in ("/metrics", "/version", "/nothing", "/health/", "/docs/", "/v1/models"):
        assert locked.get(path).status_code == 401, path


def test_a_request_without_a_key_does_not_reach_the_model(
    locked: httpx.Client, llm: FakeLLM
) -> None:
    locked.post("/v1/completions", json={"prompt": "x"})

    assert llm.prompts == []
