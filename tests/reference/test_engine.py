"""Tiny models through the whole engine, in process, against transformers: the grid of settings."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import transformers

from octavo.api.frontend.outputs import RequestOutput
from octavo.api.frontend.params import SamplingParams
from octavo.device.models.base import CausalModel
from octavo.launch.inprocess import InProcess, open_llm
from octavo.resolve.memory_plan import kv_bytes_per_block
from tests.reference.tiny import TINY, VOCAB, config_of

TOLERANCE = 1e-4
NUM_TOKENS = 64
LENGTHS = (40, 9)
"""Prompts that are compared; a window of 24 passes over both texts."""
MAX_MODEL_LEN = 128

Pairs = Callable[[str], tuple[CausalModel, transformers.PreTrainedModel]]


@dataclass(frozen=True)
class Point:
    """One place in the grid."""

    chunk: int = 64
    block_size: int = 16
    prefix_caching: bool = True
    overlap: bool = True
    preemption: bool = False
    neighbours: int = 1

    @property
    def num_seqs(self) -> int:
        return min(self.chunk, self.neighbours + 1)

    @property
    def num_tokens(self) -> int:
        """Room in the KV cache: for all that run, or for two thirds of it."""
        if self.preemption:
            return max(MAX_MODEL_LEN, 70 * self.num_seqs)
        return MAX_MODEL_LEN * (self.num_seqs + 1)

    @property
    def is_crowded(self) -> bool:
        return self.preemption and self.num_seqs > 1

    def __str__(self) -> str:
        on = [name for name in ("prefix_caching", "overlap", "preemption") if getattr(self, name)]
        return f"c{self.chunk}-b{self.block_size}-n{self.neighbours}-{'-'.join(on)}"


GRID = [
    Point(*values)
    for values in itertools.product(
        (1, 7, 64), (8, 16, 32), (True, False), (True, False), (False, True), (1, 32)
    )
]
SAMPLE = [
    Point(),
    Point(chunk=7, block_size=8, neighbours=32, preemption=True),
    Point(chunk=64, block_size=32, overlap=False, prefix_caching=False, preemption=True),
]


@dataclass(frozen=True)
class Expected:
    """What transformers says: greedy tokens, and their log-probabilities."""

    prompt: list[int]
    token_ids: list[int]
    logprobs: list[float]


def random_ids(length: int, seed: int) -> list[int]:
    return random.Random(seed).choices(range(2, VOCAB), k=length)


@torch.no_grad()
def greedy(model: transformers.PreTrainedModel, prompt: list[int]) -> Expected:
    ids = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        max_new_tokens=NUM_TOKENS,
        min_new_tokens=NUM_TOKENS,
        do_sample=False,
        eos_token_id=None,
    )[0]
    answer = ids[len(prompt) :]
    logprobs = model(ids[None]).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    chosen = logprobs.gather(1, answer[:, None])[:, 0]
    return Expected(prompt, answer.tolist(), chosen.tolist())


@pytest.fixture(scope="session")
def expected(tiny_pair: Pairs) -> Callable[[str], list[Expected]]:
    made: dict[str, list[Expected]] = {}

    def of(name: str) -> list[Expected]:
        if name not in made:
            _, model = tiny_pair(name)
            made[name] = [greedy(model, random_ids(length, seed=length)) for length in LENGTHS]
        return made[name]

    return of


@contextmanager
def served(folder: Path, point: Point) -> Iterator[InProcess]:
    options = {
        "max_num_batched_tokens": point.chunk,
        "max_num_seqs": point.num_seqs,
        "block_size": point.block_size,
        "enable_prefix_caching": point.prefix_caching,
        "async_scheduling": point.overlap,
        "max_model_len": MAX_MODEL_LEN,
    }
    per_block = kv_bytes_per_block(config_of(folder).model, point.block_size)
    num_blocks = -(-point.num_tokens // point.block_size) + 1
    config = config_of(folder, kv_cache_memory_bytes=num_blocks * per_block, **options)
    process = open_llm(config)
    try:
        yield process
    finally:
        process.close()


async def answers(process: InProcess, prompts: list[list[int]], short: set[int]):
    """Run all prompts at once; those in ``short`` get few tokens where one runs at a time."""

    async def one(index: int) -> RequestOutput:
        params = SamplingParams(
            temperature=0,
            max_tokens=4 if index in short else NUM_TOKENS,
            ignore_eos=True,
            logprobs=1,
        )
        stream = await process.llm.add(prompts[index], params, request_id=str(index))
        return [output async for output in stream][-1]

    return await asyncio.gather(*map(one, range(len(prompts))))


def check(folder: Path, point: Point, wanted: list[Expected]) -> None:
    crowd = [random_ids(5 + seed % 30, seed=1000 + seed) for seed in range(point.neighbours - 1)]
    ours = [text.prompt for text in wanted]
    # Ours twice, at both ends: the second time its prefix is cached, or being computed.
    prompts = [*ours, *crowd, *ours]
    is_slow = point.num_seqs == 1
    short = set(range(len(ours), len(ours) + len(crowd))) if is_slow else set()

    with served(folder, point) as process:
        outputs = process.run(answers(process, prompts, short))
        metrics = process.llm.metrics.render().decode()

    places = [*range(len(ours)), *range(len(prompts) - len(ours), len(prompts))]
    for place, text in zip(places, wanted * 2, strict=True):
        [answer] = outputs[place].outputs
        assert answer.token_ids == text.token_ids
        found = [
            alternatives[token].logprob
            for token, alternatives in zip(answer.token_ids, answer.logprobs, strict=True)
        ]
        assert found == pytest.approx(text.logprobs, abs=TOLERANCE)
    if point.is_crowded:
        assert "octavo:num_preemptions_total" in metrics
        [line] = [x for x in metrics.splitlines() if x.startswith("octavo:num_preemptions_total")]
        assert float(line.split()[-1]) > 0


@pytest.mark.parametrize("point", SAMPLE, ids=str)
@pytest.mark.parametrize("name", TINY)
def test_a_sample_of_the_grid_equals_transformers(
    name: str, point: Point, tiny_folder: Callable[[str], Path], expected
) -> None:
    check(tiny_folder(name), point, expected(name))


@pytest.mark.long
@pytest.mark.parametrize("point", GRID, ids=str)
@pytest.mark.parametrize("name", TINY)
def test_the_grid_equals_transformers(
    name: str, point: Point, tiny_folder: Callable[[str], Path], expected
) -> None:
    check(tiny_folder(name), point, expected(name))
