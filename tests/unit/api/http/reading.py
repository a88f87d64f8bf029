"""Reading what a server answered."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import httpx


def events(text: str) -> list[str]:
    """Data of the events of a stream; comments are left out."""
    blocks = [block for block in text.split("\n\n") if block and not block.startswith(":")]
    assert all(block.startswith("data: ") for block in blocks)
    return [block.removeprefix("data: ") for block in blocks]


def eventually(claim: Callable[[], bool], *, within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if claim():
            return True
        time.sleep(0.005)
    return claim()


def chunks(answer: httpx.Response) -> list[Any]:
    """Decoded events of a stream, which must end with its mark."""
    assert answer.status_code == 200, answer.text
    *data, mark = events(answer.text)
    assert mark == "[DONE]"
    return [json.loads(item) for item in data]


def refusal(answer: httpx.Response) -> dict[str, Any]:
    """The error of an answer, which must have OpenAI's shape."""
    error = answer.json()["error"]
    assert set(answer.json()) == {"error"}
    assert set(error) == {"message", "type", "param", "code"}
    return error
