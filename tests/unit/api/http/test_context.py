from __future__ import annotations

import io
import logging
import socket

import httpx
import pytest

from octavo.kit.log import set_up_logging
from octavo.testing.fake_llm import FakeLLM
from tests.unit.api.http.reading import eventually, refusal

BODY = {"prompt": "x"}


@pytest.fixture
def log() -> io.StringIO:
    logger = logging.getLogger("octavo")
    before = logger.handlers[:], logger.level, logger.propagate
    stream = io.StringIO()
    set_up_logging("api", "debug", stream)
    yield stream
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def test_an_id_is_taken_and_returned(client: httpx.Client, llm: FakeLLM) -> None:
    answer = client.post("/v1/completions", json=BODY, headers={"X-Request-Id": "from-me.1"})

    assert answer.headers["x-request-id"] == "from-me.1"
    assert answer.json()["id"].startswith("cmpl-from-me.1-")


def test_an_id_is_made_where_none_is_given(client: httpx.Client) -> None:
    ids = {client.get("/health").headers["x-request-id"] for _ in range(3)}

    assert len(ids) == 3
    assert all(len(name) == 32 for name in ids)


@pytest.mark.parametrize(
    ("given", "kept"),
    [(b'a b/c;"<d>', "abcd"), (b"x" * 500, "x" * 128), ("é1".encode(), "1")],
)
def test_an_id_is_cleaned_and_cut(client: httpx.Client, given: bytes, kept: str) -> None:
    answer = client.get("/health", headers=[(b"x-request-id", given)])

    assert answer.headers["x-request-id"] == kept


def test_two_requests_with_one_id_are_two_requests(client: httpx.Client) -> None:
    ids = {
        client.post("/v1/completions", json=BODY, headers={"X-Request-Id": "same"}).json()["id"]
        for _ in range(2)
    }

    assert len(ids) == 2


def test_every_log_line_of_a_request_carries_its_id(client: httpx.Client, log: io.StringIO) -> None:
    client.get("/health", headers={"X-Request-Id": "marked"})

    assert eventually(lambda: "GET /health 200" in log.getvalue())
    assert all("[marked]" in line for line in log.getvalue().splitlines())


def test_an_unforeseen_error_is_a_500_that_tells_its_cause_to_the_log_only(
    client: httpx.Client, llm: FakeLLM, log: io.StringIO
) -> None:
    llm.refusal = RuntimeError("secret detail")

    answer = client.post("/v1/completions", json=BODY, headers={"X-Request-Id": "bad"})

    assert answer.status_code == 500
    assert refusal(answer)["type"] == "server_error"
    assert "secret" not in answer.text
    assert eventually(lambda: "secret detail" in log.getvalue())
    assert "[bad]" in log.getvalue()


def test_after_an_unforeseen_error_the_next_request_is_served(
    client: httpx.Client, llm: FakeLLM
) -> None:
    llm.refusal = RuntimeError("once")
    client.post("/v1/completions", json=BODY)
    llm.refusal = None

    assert client.post("/v1/completions", json=BODY).status_code == 200


def test_a_client_that_hangs_up_within_its_body_is_no_error(
    client: httpx.Client, llm: FakeLLM, log: io.StringIO
) -> None:
    head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: half\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    with socket.create_connection((client.base_url.host, client.base_url.port)) as connection:
        connection.sendall(f'{head}{{"prompt": "x'.encode())

    assert eventually(lambda: "POST /v1/completions 499" in log.getvalue())
    assert "Traceback" not in log.getvalue()
    assert llm.prompts == []
