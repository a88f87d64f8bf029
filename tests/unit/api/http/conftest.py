"""A served fake: the application behind a real HTTP server on a private unix socket."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from octavo.api.http.app import build_app
from octavo.config.cache import CacheConfig
from octavo.config.frontend import FrontendConfig, ServerConfig
from octavo.config.model import LayerConfig, ModelConfig, RopeConfig
from octavo.config.octavo import OctavoConfig
from octavo.config.parallel import ParallelConfig
from octavo.config.scheduler import SchedulerConfig
from octavo.testing.fake_llm import VOCAB_SIZE, FakeLLM

CONFIG = OctavoConfig(
    model=ModelConfig(
        name="folder/of/fake",
        path="folder/of/fake",
        weight_format="dummy",
        model_type="llama",
        architecture="LlamaForCausalLM",
        dtype="float32",
        max_model_len=4096,
        vocab_size=VOCAB_SIZE,
        hidden_size=8,
        intermediate_size=8,
        num_heads=1,
        num_kv_heads=1,
        head_size=8,
        layers=(LayerConfig(),),
        hidden_act="silu",
        rms_norm_eps=1e-5,
        rope=RopeConfig(theta=1e4, rotary_size=8),
        tie_word_embeddings=True,
        attention_bias=False,
        output_bias=False,
        mlp_bias=False,
    ),
    cache=CacheConfig(block_size=16, num_blocks=8, dtype="float32", prefix_caching=True),
    scheduler=SchedulerConfig(
        max_num_batched_tokens=64,
        max_num_seqs=8,
        max_model_len=4096,
        policy="fcfs",
        overlap=True,
    ),
    parallel=ParallelConfig(executor="uniproc", device="cpu", threads=1),
    frontend=FrontendConfig(
        served_model_names=("fake", "alias"),
        tokenizer="folder/of/fake",
        chat_template=None,
        max_logprobs=20,
        max_waiting_requests=8,
        max_waiting_tokens=4096,
        default_sampling=(),
        seed=0,
    ),
    attention_backend="torch_sdpa",
    numerics="fast",
    log_level="info",
    notes=(),
)
SERVER = ServerConfig(host="", port=0, uds=None, api_keys=(), max_body_bytes=1 << 20)

Serve = Callable[..., httpx.Client]


class Served:
    """A running HTTP server whose application changes from test to test."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.app: ASGIApp | None = None
        config = uvicorn.Config(
            self._current,
            interface="asgi3",
            uds=str(path),
            log_level="warning",
            lifespan="off",
            access_log=False,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._server.serve()))
        self._thread.start()
        deadline = time.monotonic() + 10
        while not self._server.started and time.monotonic() < deadline:
            time.sleep(0.005)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        assert not self._thread.is_alive()

    async def _current(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    server = Served(tmp_path_factory.mktemp("http") / "socket")
    yield server
    server.close()


@pytest.fixture
def llm() -> FakeLLM:
    return FakeLLM(CONFIG)


@pytest.fixture
def serve(running: Served) -> Iterator[Serve]:
    """Call with a fake, and fields of ``ServerConfig`` that differ."""
    transport = httpx.HTTPTransport(uds=str(running.path))
    with httpx.Client(transport=transport, base_url="http://o") as client:

        def start(llm: FakeLLM, **changes: object) -> httpx.Client:
            running.app = build_app(llm, replace(SERVER, **changes))
            return client

        yield start


@pytest.fixture
def client(llm: FakeLLM, serve: Serve) -> httpx.Client:
    return serve(llm)
