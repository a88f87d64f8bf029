"""A served fake: the application behind a real HTTP server on a private unix socket."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import uvicorn

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


@contextmanager
def served(llm: FakeLLM, server: ServerConfig, path: Path) -> Iterator[httpx.Client]:
    """Serve ``llm`` until the block ends; the client is not the only one that may connect."""
    config = uvicorn.Config(
        build_app(llm, server), uds=str(path), log_level="warning", lifespan="off", access_log=False
    )
    running = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(running.serve()))
    thread.start()
    deadline = time.monotonic() + 10
    while not running.started and time.monotonic() < deadline:
        time.sleep(0.005)
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://o") as client:
        yield client
    running.should_exit = True
    thread.join(10)
    assert not thread.is_alive()


@pytest.fixture
def llm() -> FakeLLM:
    return FakeLLM(CONFIG)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Call with a fake, and fields of ``ServerConfig`` that differ."""
    with ExitStack() as stack:

        def start(llm: FakeLLM, **changes: object) -> httpx.Client:
            server = replace(SERVER, **changes)
            return stack.enter_context(served(llm, server, tmp_path / "http"))

        yield start


@pytest.fixture
def client(llm: FakeLLM, serve: Serve) -> httpx.Client:
    return serve(llm)


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
