"""A frontend over a scripted engine: the test says what the engine says."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from typing import Self

from octavo.api.frontend.async_llm import AsyncLLM
from octavo.config.cache import CacheConfig
from octavo.config.frontend import FrontendConfig
from octavo.config.model import LayerConfig, ModelConfig, RopeConfig
from octavo.config.octavo import OctavoConfig
from octavo.config.parallel import ParallelConfig
from octavo.config.scheduler import SchedulerConfig
from octavo.contracts.codec import Codec
from octavo.contracts.output import (
    EngineDead,
    EngineMessage,
    EngineOutput,
    EngineOutputs,
    EngineReady,
    FinishReason,
    SchedulerStats,
    UtilityResult,
)
from octavo.contracts.request import Abort, EngineRequest, FrontendMessage
from octavo.testing.fake_tokenizer import EOS_ID, VOCAB_SIZE, FakeTokenizer
from octavo.transport.base import Frames, PeerGone

CONFIG = OctavoConfig(
    model=ModelConfig(
        name="fake",
        path="fake",
        weight_format="dummy",
        model_type="llama",
        architecture="LlamaForCausalLM",
        dtype="float32",
        max_model_len=128,
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
        eos_token_ids=(EOS_ID,),
    ),
    cache=CacheConfig(block_size=16, num_blocks=8, dtype="float32", prefix_caching=True),
    scheduler=SchedulerConfig(
        max_num_batched_tokens=64, max_num_seqs=4, max_model_len=128, policy="fcfs", overlap=True
    ),
    parallel=ParallelConfig(executor="uniproc", device="cpu", threads=1),
    frontend=FrontendConfig(
        served_model_names=("fake",),
        tokenizer="fake",
        chat_template=None,
        max_logprobs=20,
        max_waiting_requests=4,
        max_waiting_tokens=512,
        default_sampling=(),
        seed=0,
    ),
    attention_backend="torch_sdpa",
    numerics="fast",
    log_level="info",
    notes=(),
)


def config_with(**frontend: object) -> OctavoConfig:
    return replace(CONFIG, frontend=replace(CONFIG.frontend, **frontend))


class ScriptedChannel:
    """Frames in two queues; ``break_off`` is the engine's end closing."""

    def __init__(self) -> None:
        self.to_engine: asyncio.Queue[Frames] = asyncio.Queue()
        self.to_frontend: asyncio.Queue[Frames | None] = asyncio.Queue()
        self.is_closed = False

    async def send(self, frames: Frames) -> None:
        if self.is_closed:
            raise PeerGone("the engine is gone")
        self.to_engine.put_nowait(frames)

    async def receive(self) -> Frames:
        frames = await self.to_frontend.get()
        if frames is None:
            raise PeerGone("the engine is gone")
        return frames

    def break_off(self) -> None:
        self.is_closed = True
        self.to_frontend.put_nowait(None)

    def close(self) -> None:
        self.is_closed = True


@dataclass
class ScriptedEngine:
    """The engine's end."""

    channel: ScriptedChannel
    generation: int = 1
    requests: dict[str, EngineRequest] = field(default_factory=dict)
    aborted: list[str] = field(default_factory=list)
    _out: Codec[EngineMessage] = field(default_factory=lambda: Codec(EngineMessage))
    _in: Codec[FrontendMessage] = field(default_factory=lambda: Codec(FrontendMessage))

    def ready(self, max_model_len: int = 128) -> None:
        self.tell(EngineReady(0, self.generation, max_model_len, 8, 16, "0", phases=[]))

    def die(self, error: str, *, operator: bool = False) -> None:
        self.tell(EngineDead(0, error, "worker.py:1", operator=operator))

    def tell(self, message: EngineMessage) -> None:
        self.channel.to_frontend.put_nowait(self._out.encode(message))

    def say(self, *outputs: EngineOutput, stats: SchedulerStats | None = None) -> None:
        self.tell(
            EngineOutputs(0, self.generation, list(outputs), stats, timestamp=time.monotonic())
        )

    def answer(self, result: UtilityResult) -> None:
        self.tell(EngineOutputs(0, self.generation, [], utility=result))

    async def next(self) -> FrontendMessage:
        message = self._in.decode(await asyncio.wait_for(self.channel.to_engine.get(), 5))
        if isinstance(message, EngineRequest):
            self.requests[message.request_id] = message
        elif isinstance(message, Abort):
            self.aborted += message.request_ids
        return message

    async def next_request(self) -> EngineRequest:
        message = await self.next()
        assert isinstance(message, EngineRequest)
        return message

    @property
    def is_quiet(self) -> bool:
        return self.channel.to_engine.empty()


@dataclass
class Bench:
    llm: AsyncLLM
    engine: ScriptedEngine

    async def settle(self) -> None:
        """Let the frontend read everything that was said."""
        for _ in range(self.engine.channel.to_frontend.qsize() + 5):
            await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        self.engine.ready()
        await self.llm.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.llm.close()


def bench(config: OctavoConfig = CONFIG) -> Bench:
    channel = ScriptedChannel()
    return Bench(AsyncLLM(config, channel, tokenizer=FakeTokenizer()), ScriptedEngine(channel))


def text_output(
    request_id: str, text: str, finish: FinishReason | None = None, **fields: object
) -> EngineOutput:
    return EngineOutput(request_id, list(text.encode()), finish, **fields)
