"""Connections: bounded heads, and what is not HTTP."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

import httpx
import pytest

from octavo.api.http.protocol import MAX_HEAD_BYTES
from octavo.testing.fake_llm import FakeLLM
from octavo.testing.served import Served

TIMEOUT_S = 10.0
_START = b"GET /version HTTP/1.1\r\nHost: h\r\n"


@pytest.fixture
def port(running: Served, llm: FakeLLM) -> int:
    running.show(llm)
    found = urlsplit(running.url).port
    assert found
    return found


def exchange(port: int, *pieces: bytes) -> tuple[int, dict[str, str]]:
    """Status and error of the answer, after which the connection must end."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
        for piece in pieces:
            connection.sendall(piece)
        while piece := connection.recv(1 << 16):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    return int(head.split()[1]), json.loads(body)["error"]


@pytest.mark.parametrize(
    "pieces",
    [
        [b"X: " + b"a" * (MAX_HEAD_BYTES + 40_000)],
        [b"X: "] + [b"a" * 10_000] * 9,
        [b"X" * (MAX_HEAD_BYTES + 40_000)],
        [b"X: " + b"a" * 500 + b"\r\n"] * 200,
        [b"X: " + b"a" * (MAX_HEAD_BYTES + 1) + b"\r\n\r\n"],
    ],
    ids=["one value", "in pieces", "one name", "many", "complete"],
)
def test_a_large_head_is_a_431_while_it_arrives(port: int, pieces: list[bytes]) -> None:
    status, error = exchange(port, _START, *pieces)

    assert status == 431
    assert error["code"] == "headers_too_large"
    assert str(MAX_HEAD_BYTES) in error["message"]


def test_a_large_request_line_is_a_431(port: int) -> None:
    status, _ = exchange(port, b"GET /" + b"a" * (MAX_HEAD_BYTES + 40_000))

    assert status == 431


def test_large_trailers_end_the_connection(port: int) -> None:
    start = b"POST /tokenize HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
    body = b'Content-Type: application/json\r\n\r\n1\r\n"\r\n0\r\nX: '

    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
        connection.sendall(start + body + b"a" * (MAX_HEAD_BYTES + 40_000))
        while connection.recv(1 << 16):
            pass


def test_a_head_within_the_bound_is_served_also_beside_a_large_body(
    port: int, client: httpx.Client
) -> None:
    body = json.dumps({"prompt": "x" * 3000, "user": "y" * 300_000})
    headers = {"X-Long": "a" * (MAX_HEAD_BYTES - 1000), "Content-Type": "application/json"}

    for _ in range(3):
        answer = client.post("/tokenize", content=body, headers=headers)

        assert answer.status_code == 200
        assert answer.json()["count"] == 3001


def test_pipelined_requests_are_counted_apart(port: int) -> None:
    one = _START + b"X: " + b"a" * 30_000 + b"\r\n"
    answer = b""

    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
        connection.sendall((one + b"\r\n") * 4 + one + b"Connection: close\r\n\r\n")
        while piece := connection.recv(1 << 16):
            answer += piece

    assert answer.count(b"HTTP/1.1 200 OK") == 5


@pytest.mark.parametrize("sent", [b"nonsense\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00"])
def test_what_is_not_http_is_a_400_in_openais_shape(
    port: int, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    status, error = exchange(port, sent)

    assert status == 400
    assert error["code"] == "invalid_http"
    assert not caplog.records


def test_a_request_to_change_the_protocol_is_answered_without_a_word(
    client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    answer = client.get("/version", headers={"Upgrade": "websocket", "Connection": "Upgrade"})

    assert answer.status_code == 200
    assert not [record for record in caplog.records if record.name.startswith("uvicorn")]
