"""The worker that executors make, with a real model class and made-up weights."""

from __future__ import annotations

import gc
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from octavo.config.model import LayerConfig, ModelConfig, RopeConfig
from octavo.config.octavo import OctavoConfig
from octavo.contracts.sampling import TokenSampling
from octavo.contracts.schedule import SampleInput
from octavo.contracts.worker import WorkerAPI, WorkerInit
from octavo.device.worker import make_worker
from tests.unit.device.plans import Live, Planner, plan_kv, take
from tests.unit.device.tiny import tiny_config

VOCAB = 211
SAMPLINGS = [
    TokenSampling(max_tokens=8, temperature=0.0),
    TokenSampling(max_tokens=8, temperature=0.7, top_p=0.9, seed=5),
    TokenSampling(max_tokens=8, temperature=1.2, top_k=30, seed=6, logprobs=3),
]


def config(max_model_len: int = 96) -> OctavoConfig:
    base = tiny_config(block_size=8, max_model_len=max_model_len, num_blocks=260)
    model = ModelConfig(
        name="made-up",
        path="nowhere",
        weight_format="dummy",
        model_type="llama",
        architecture="LlamaForCausalLM",
        dtype="float32",
        max_model_len=max_model_len,
        vocab_size=VOCAB,
        hidden_size=64,
        intermediate_size=96,
        num_heads=4,
        num_kv_heads=2,
        head_size=16,
        layers=(LayerConfig(), LayerConfig()),
        hidden_act="silu",
        rms_norm_eps=1e-5,
        rope=RopeConfig(theta=10000.0, rotary_size=16),
        tie_word_embeddings=False,
        attention_bias=False,
        output_bias=False,
        mlp_bias=False,
    )
    return replace(base, model=model, attention_backend="torch_paged")


class Served:
    def __init__(self) -> None:
        settings = config()
        self.worker: WorkerAPI = make_worker(WorkerInit(settings))
        self.worker.load()
        kv_cache = plan_kv(self.worker.kv_cache_specs(), settings.cache.num_blocks)
        self.worker.allocate(kv_cache)
        self.worker.warm_up()
        self.planner = Planner(kv_cache)

    def step(self, grants: list[tuple[Live, int]]) -> None:
        plan = self.planner.plan(grants)
        self.worker.execute(plan)
        take(grants, self.worker.sample(SampleInput(plan.step)))


def lives(count: int) -> list[Live]:
    rng = random.Random(7)
    made = []
    for row in range(count):
        length = rng.randint(1, 30)
        prompt = [rng.randrange(VOCAB) for _ in range(length)]
        made.append(Live(row, prompt, length, SAMPLINGS[row % 3]))
    return made


@pytest.fixture(scope="module")
def alone() -> list[list[int]]:
    """Answers of each request by itself, its prompt in one piece."""
    served, found = Served(), []
    for live in lives(6):
        while len(live.output) < 8:
            served.step([(live, len(live.tokens) - live.computed)])
        served.planner.end(live)
        found.append(live.output)
    return found


@pytest.mark.parametrize("chunk", [1, 5, 10])
def test_a_crowd_in_chunks_gives_each_request_the_tokens_it_gets_alone(
    chunk: int, alone: list[list[int]]
) -> None:
    served, crowd = Served(), lives(6)

    while going := [live for live in crowd if len(live.output) < 8]:
        served.step([(live, min(chunk, len(live.tokens) - live.computed)) for live in going])

    assert [live.output for live in crowd] == alone
    assert len({tuple(tokens) for tokens in alone}) > 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's own tables")
def test_the_process_does_not_grow_while_it_serves() -> None:
    served = Served()

    def serve(rounds: int) -> None:
        for _ in range(rounds):
            crowd = lives(6)
            while going := [live for live in crowd if len(live.output) < 8]:
                served.step([(live, min(9, len(live.tokens) - live.computed)) for live in going])
            for live in crowd:
                served.planner.end(live)

    serve(15)
    gc.collect()
    before = _resident_bytes()
    serve(60)
    gc.collect()

    # 700 steps; anything kept per step or per token would show.
    assert _resident_bytes() - before < 2 << 20


def _resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
