"""What does the engine cost without a model?

Question: CPU time that one decode step takes of the engine's thread (schedule, build the plan,
update, encode the outputs; decode and add of requests is spread over the tokens each gets),
for 256 and 1,024 running requests. The device is replaced by one that answers with prepared
arrays, and its own time is not counted. Prints one JSON line per case.

    python benchmarks/engine.py [--steps 300] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import platform
import pstats
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from octavo.config.octavo import OctavoConfig
from octavo.contracts.codec import Codec
from octavo.contracts.kv import KVCacheConfig, KVCacheSpec, MemoryReport
from octavo.contracts.output import EngineMessage
from octavo.contracts.request import EngineRequest, FrontendMessage
from octavo.contracts.runner import ModelRunnerOutput
from octavo.contracts.sampling import TokenSampling
from octavo.contracts.schedule import SampleInput, SchedulerOutput
from octavo.engine.boot import boot
from octavo.engine.core import EngineCore
from octavo.engine.main import Stepper
from octavo.engine.overlap import OverlappedCore
from octavo.testing.fake_config import fake_config, fake_scheduler_config

PROMPT_TOKENS = 128
OUTPUT_TOKENS = 256
BLOCK_SIZE = 16


@dataclass(slots=True)
class Ready:
    """Tokens that were there before anyone asked."""

    sampled: ModelRunnerOutput

    def result(self) -> ModelRunnerOutput:
        return self.sampled


class PreparedDevice:
    """Satisfies ``Executor``; answers every row with a token, and counts its own time."""

    def __init__(self) -> None:
        self.time_s = 0.0
        self._rows: dict[int, int] = {}
        """Tokens of its prompt that a row has still to compute."""
        self._num_tokens: list[np.ndarray] = []

    def start(self) -> None: ...

    def load(self) -> None: ...

    def kv_cache_specs(self) -> list[KVCacheSpec]:
        return [KVCacheSpec(0, "full", BLOCK_SIZE, 64)]

    def measure_memory(self) -> MemoryReport:
        return MemoryReport(2**40, 0, 0, 2**39)

    def allocate(self, kv_cache: KVCacheConfig) -> None: ...

    def execute(self, plan: SchedulerOutput) -> None:
        start = time.thread_time()
        for new in plan.new:
            self._rows[new.row] = len(new.token_ids) - new.num_computed_tokens
        if self._rows:
            self._num_tokens.append(self._prompts(plan))
        else:
            self._num_tokens.append(np.ones(len(plan.rows), np.int32))
        self.time_s += time.thread_time() - start

    def sample(self, sample: SampleInput) -> Ready:
        start = time.thread_time()
        num_tokens = self._num_tokens.pop(0)
        sampled = ModelRunnerOutput(
            step=sample.step,
            token_ids=np.full((len(num_tokens), 1), 100 + sample.step % 800, np.int32),
            num_tokens=num_tokens,
            row_status=np.zeros(len(num_tokens), np.int32),
        )
        self.time_s += time.thread_time() - start
        return Ready(sampled)

    def reset(self) -> None: ...

    def check(self) -> None: ...

    def close(self) -> None: ...

    def _prompts(self, plan: SchedulerOutput) -> np.ndarray:
        answers = []
        for row, count in zip(plan.rows.tolist(), plan.num_scheduled_tokens.tolist(), strict=True):
            left = self._rows.pop(row, count) - count
            if left > 0:
                self._rows[row] = left
            answers.append(int(left <= 0))
        return np.array(answers, np.int32)


def bench_config(num_requests: int, *, overlap: bool) -> OctavoConfig:
    scheduler = fake_scheduler_config(
        max_num_batched_tokens=max(8192, num_requests),
        max_num_seqs=num_requests,
        max_model_len=1024,
        overlap=overlap,
    )
    blocks = num_requests * -(-(PROMPT_TOKENS + OUTPUT_TOKENS + 1) // BLOCK_SIZE) + 64
    return fake_config(scheduler, block_size=BLOCK_SIZE, num_blocks=blocks)


def bench_request(number: int, prompt: list[int]) -> EngineRequest:
    return EngineRequest(
        request_id=f"cmpl-{number:024x}",
        prompt_token_ids=prompt,
        sampling=TokenSampling(max_tokens=OUTPUT_TOKENS, stop_token_ids=[2, 3], eos_token_ids=[2]),
        arrival_time=float(number),
    )


class Bench:
    """An engine full of requests that all decode."""

    def __init__(self, num_requests: int, *, overlap: bool) -> None:
        config = bench_config(num_requests, overlap=overlap)
        self.device = PreparedDevice()
        self.core = EngineCore(config, boot(config, self.device).kv_cache, self.device)
        self.stepper: Stepper = OverlappedCore(self.core) if overlap else self.core
        self.encode = Codec[EngineMessage](EngineMessage).encode
        self.intake_s = self._take_in(num_requests)
        while self.core.table.waiting or self.device._rows:  # prompts
            self.stepper.step()

    def _take_in(self, num_requests: int) -> float:
        """Decode and add every request; return the time for one."""
        codec: Codec[FrontendMessage] = Codec(FrontendMessage)
        rng = np.random.default_rng(0)
        lengths = PROMPT_TOKENS - np.arange(num_requests) % BLOCK_SIZE  # ends of blocks spread out
        frames = [
            codec.encode(bench_request(number, rng.integers(10, 900, length).tolist()))
            for number, length in enumerate(lengths.tolist())
        ]
        start = time.thread_time()
        for each in frames:
            self.core.add(codec.decode(each))
        return (time.thread_time() - start) / num_requests

    def step(self) -> float:
        """Run one step; return the engine's part of the CPU time. [s]"""
        before = self.device.time_s
        start = time.thread_time()
        outputs = self.stepper.step()
        assert outputs is not None
        self.encode(outputs)
        return time.thread_time() - start - (self.device.time_s - before)


def measure(num_requests: int, *, overlap: bool, num_steps: int) -> dict[str, object]:
    """Take the steps between the last prompt and the first end, from as many engines as needed."""
    samples: list[float] = []
    intake: list[float] = []
    while len(samples) < num_steps:
        bench = Bench(num_requests, overlap=overlap)
        intake.append(bench.intake_s)
        gc.collect()
        for turn in range(OUTPUT_TOKENS - 40):
            sample = bench.step()
            if turn >= 5:
                samples.append(sample)
        assert len(bench.core.table.running) == num_requests
    per_step = statistics.median(intake) * num_requests / OUTPUT_TOKENS
    deciles = statistics.quantiles(samples, n=10)
    median = statistics.median(samples) + per_step
    return {
        "benchmark": "engine",
        "num_requests": num_requests,
        "overlap": overlap,
        "steps": len(samples),
        "median_ms": round(median * 1e3, 4),
        "p10_ms": round((deciles[0] + per_step) * 1e3, 4),
        "p90_ms": round((deciles[-1] + per_step) * 1e3, 4),
        "intake_ms_per_step": round(per_step * 1e3, 4),
        "us_per_request": round(median * 1e6 / num_requests, 3),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }


def profile(run: Callable[[], object]) -> None:
    profiler = cProfile.Profile()
    profiler.runcall(run)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    if args.profile:
        bench = Bench(256, overlap=True)
        profile(lambda: [bench.step() for _ in range(200)])
        return
    for num_requests in (256, 1024):
        for overlap in (True, False):
            print(json.dumps(measure(num_requests, overlap=overlap, num_steps=args.steps)))


if __name__ == "__main__":
    main()
