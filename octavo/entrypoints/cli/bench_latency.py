"""``octavo bench latency``: how long does one batch of equal prompts take."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass

from tqdm import tqdm

from octavo.config.args import EngineArgs
from octavo.config.cli import parse
from octavo.entrypoints.cli.bench_report import (
    ReportArgs,
    distribution,
    random_prompts,
    require_positive,
)
from octavo.entrypoints.cli.bench_throughput import exact_length, run_batch
from octavo.kit.env import read_environment
from octavo.kit.log import set_up_logging
from octavo.launch.inprocess import open_llm
from octavo.resolve.load import load_config

_ABOUT = "How long does one batch of equal prompts take?"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyArgs:
    """The load."""

    batch_size: int = 8
    """Prompts of a batch; each batch has new ones, so that none is in the prefix cache."""

    input_len: int = 32
    """Length of each prompt, drawn at random. [tokens]"""

    output_len: int = 128
    """Length of each answer. [tokens]"""

    num_iters: int = 5
    """Batches that are measured."""

    num_iters_warmup: int = 1
    """Batches before them that are not."""

    temperature: float = 1.0
    """0 takes the likeliest token."""

    load_seed: int = 0
    """Seed of the prompts."""


def run(argv: list[str]) -> int:
    """Measure, report, and return the exit code."""
    args, load, report = parse(
        argv, EngineArgs, LatencyArgs, ReportArgs, prog="octavo bench latency", about=_ABOUT
    )
    require_positive(
        batch_size=load.batch_size,
        input_len=load.input_len,
        output_len=load.output_len,
        num_iters=load.num_iters,
    )
    config = load_config(args, read_environment())
    set_up_logging("bench", args.log_level or "warning")
    num_batches = max(0, load.num_iters_warmup) + load.num_iters
    prompts = random_prompts(
        num_batches * load.batch_size,
        load.input_len,
        vocab_size=config.model.vocab_size,
        seed=load.load_seed,
    )
    params = exact_length(load.output_len, load.temperature)
    durations = list[float]()
    with closing(open_llm(config)) as process:
        for first in tqdm(range(0, len(prompts), load.batch_size), unit="batch"):
            started = time.perf_counter()
            run_batch(process, prompts[first : first + load.batch_size], params, is_shown=False)
            durations.append(time.perf_counter() - started)
    measured = durations[-load.num_iters :]
    report.report(
        "latency",
        {
            "batch_size": load.batch_size,
            "input_len": load.input_len,
            "output_len": load.output_len,
            "num_iters": load.num_iters,
            **distribution("latency", measured),
        },
    )
    return 0
