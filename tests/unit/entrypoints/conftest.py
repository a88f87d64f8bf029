"""A served fake for clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from octavo.testing.fake_llm import FakeLLM
from octavo.testing.served import Served, text_config


@pytest.fixture(scope="session")
def running() -> Iterator[Served]:
    server = Served()
    yield server
    server.close()


@pytest.fixture
def llm(running: Served) -> FakeLLM:
    """What ``url`` serves."""
    llm = FakeLLM(text_config())
    running.show(llm)
    return llm


@pytest.fixture
def url(running: Served, llm: FakeLLM) -> str:
    return running.url
