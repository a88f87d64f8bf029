"""``octavo bench throughput``: how many tokens per second, with every prompt there at once."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass

from octavo.api.frontend.outputs import RequestOutput
from octavo.api.frontend.params import SamplingParams
from octavo.config.args import EngineArgs
from octavo.config.cli import parse
from octavo.entrypoints.cli.bench_report import (
    Figures,
    ReportArgs,
    random_prompts,
    require_positive,
)
from octavo.entrypoints.offline import Batch, Job, Progress, given
from octavo.kit.env import read_environment
from octavo.kit.log import set_up_logging
from octavo.launch.inprocess import InProcess, open_llm
from octavo.resolve.load import load_config

_ABOUT = "How many tokens per second, with every prompt there at once?"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputArgs:
    """The load."""

    num_prompts: int = 64
    """Prompts, all handed over at once."""

    input_len: int = 128
    """Length of each prompt, drawn at random. [tokens]"""

    output_len: int = 128
    """Length of each answer. [tokens]"""

    temperature: float = 1.0
    """0 takes the likeliest token."""

    load_seed: int = 0
    """Seed of the prompts."""


def run(argv: list[str]) -> int:
    """Measure, report, and return the exit code."""
    args, load, report = parse(
        argv, EngineArgs, ThroughputArgs, ReportArgs, prog="octavo bench throughput", about=_ABOUT
    )
    require_positive(
        num_prompts=load.num_prompts, input_len=load.input_len, output_len=load.output_len
    )
    config = load_config(args, read_environment())
    set_up_logging("bench", args.log_level or "warning")
    with closing(open_llm(config)) as process:
        vocab_size = config.model.vocab_size
        [warm_up, *prompts] = random_prompts(
            load.num_prompts + 1, load.input_len, vocab_size=vocab_size, seed=load.load_seed
        )
        params = exact_length(load.output_len, load.temperature)
        run_batch(process, [warm_up], params, is_shown=False)
        started = time.perf_counter()
        outputs = run_batch(process, prompts, params, is_shown=True)
        elapsed = time.perf_counter() - started
    report.report("throughput", _figures(outputs, elapsed))
    return 0


def run_batch(
    process: InProcess, prompts: list[list[int]], params: SamplingParams, *, is_shown: bool
) -> list[RequestOutput]:
    """Outputs of all prompts, handed over at once."""
    with Progress(len(prompts), is_shown=is_shown) as progress:
        jobs = [Job(given(prompt), params) for prompt in prompts]
        return process.run(Batch(process.llm, jobs, progress).run())


def exact_length(output_len: int, temperature: float) -> SamplingParams:
    """Parameters that give exactly so many tokens."""
    return SamplingParams(
        max_tokens=output_len, ignore_eos=True, temperature=temperature, seed=0, detokenize=True
    )


def _figures(outputs: list[RequestOutput], elapsed_s: float) -> Figures:
    num_input = sum(len(output.prompt_token_ids) for output in outputs)
    num_output = sum(len(answer.token_ids) for output in outputs for answer in output.outputs)
    return {
        "num_requests": len(outputs),
        "total_input_tokens": num_input,
        "total_output_tokens": num_output,
        "elapsed_s": elapsed_s,
        "requests_per_s": len(outputs) / elapsed_s,
        "tokens_per_s": (num_input + num_output) / elapsed_s,
        "output_tokens_per_s": num_output / elapsed_s,
    }
