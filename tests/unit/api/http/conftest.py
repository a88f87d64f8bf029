"""A served fake: the application behind a real HTTP server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import httpx
import pytest

from octavo.testing.fake_llm import FakeLLM
from octavo.testing.served import ANY_SERVER, Served, text_config

Serve = Callable[..., httpx.Client]


@pytest.fixture(scope="session")
def running() -> Iterator[Served]:
    server = Served()
    yield server
    server.close()


@pytest.fixture
def llm() -> FakeLLM:
    return FakeLLM(text_config())


@pytest.fixture
def serve(running: Served) -> Iterator[Serve]:
    """Call with a fake, and fields of ``ServerConfig`` that differ."""
    with httpx.Client(base_url=running.url) as client:

        def start(llm: FakeLLM, **changes: object) -> httpx.Client:
            running.show(llm, replace(ANY_SERVER, **changes))
            return client

        yield start


@pytest.fixture
def client(llm: FakeLLM, serve: Serve) -> httpx.Client:
    return serve(llm)
