"""How fast is octavo on one CUDA device, beside vLLM and the limits of an H200?

Question: rates of decoding one and 64 texts, of 256 mixed requests, time of one prompt of 16,384
tokens, and time from the process's start to its first token, in process, with dummy weights in
the shapes of Qwen3-0.6B and 8B. Prints one JSON line per figure.

    python benchmarks/gpu/run.py [--models 0.6B 8B] [--rows decode1 decode64 throughput prefill]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

STARTED = time.time()

from octavo.api.frontend.params import SamplingParams  # noqa: E402 (the start is measured)
from octavo.entrypoints.llm import LLM  # noqa: E402

VOCAB_SIZE = 151_936
DECODER = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
MAX_LENGTH = 20_480
SHAPES = {
    "0.6B": {"hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16,
             "intermediate_size": 3072, "tie_word_embeddings": True},
    "8B": {"hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32,
           "intermediate_size": 12288, "tie_word_embeddings": False},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Beside:
    """What others reach on an H200."""

    vllm: float | None
    """vLLM 0.26.0, in one process where that was measured."""
    limit: float | None
    target: float


BESIDE = {
    ("0.6B", "decode1"): Beside(614, 3339, 1100),
    ("0.6B", "decode64"): Beside(27_800, None, 32_000),
    ("0.6B", "throughput"): Beside(24_200, 33_700, 29_000),
    ("0.6B", "prefill"): Beside(87, 61, 80),
    ("0.6B", "first_token"): Beside(5.3, None, 5),
    ("0.6B", "start"): Beside(28.8, 5.4, 7),
    ("8B", "decode1"): Beside(193, 263, 235),
    ("8B", "decode64"): Beside(10_300, None, 11_500),
    ("8B", "throughput"): Beside(9430, 12_090, 10_800),
    ("8B", "prefill"): Beside(494, 412, 480),
    ("8B", "first_token"): Beside(None, None, 9),
    ("8B", "start"): Beside(32.1, 5.4, 9),
}


def model_folder(shape: dict[str, object]) -> Path:
    """Write the configuration of a Qwen3 of this shape, and a tokenizer of made-up words."""
    folder = Path(tempfile.mkdtemp(prefix="octavo-bench-"))
    config = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "dtype": "bfloat16",
        "vocab_size": VOCAB_SIZE, "num_key_value_heads": 8, "head_dim": 128,
        "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1e6,
        "max_position_embeddings": 40_960, "attention_bias": False, **shape,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    vocab = {f"w{index}": index for index in range(VOCAB_SIZE)}
    model = {"type": "WordLevel", "vocab": vocab, "unk_token": "w0"}
    (folder / "tokenizer.json").write_text(
        json.dumps({"version": "1.0", "model": model, "decoder": DECODER})
    )
    return folder


def tokens(seed: int, length: int) -> list[int]:
    draw = random.Random(seed)
    return [draw.randint(0, 10_000) for _ in range(length)]


def greedy(count: int) -> SamplingParams:
    return SamplingParams(max_tokens=count, temperature=0, ignore_eos=True, detokenize=False)


def timed(llm: LLM, prompts: list[list[int]], params: list[SamplingParams]) -> float:
    """Seconds that one call takes; every answer must have its length."""
    begin = time.perf_counter()
    answers = llm.generate(prompts, params, use_tqdm=False)
    seconds = time.perf_counter() - begin
    for answer, each in zip(answers, params, strict=True):
        assert len(answer.outputs[0].token_ids) == each.max_tokens
    return seconds


def decode(llm: LLM, prompts: list[list[int]]) -> float:
    """Tokens a second over tokens 2 to 256."""
    first = timed(llm, prompts, [greedy(1)] * len(prompts))
    return len(prompts) * 255 / (timed(llm, prompts, [greedy(256)] * len(prompts)) - first)


def decode1(llm: LLM) -> list[float]:
    decode(llm, [tokens(2, 128)])
    return [decode(llm, [tokens(seed, 128)]) for seed in (3, 4, 5)]


def decode64(llm: LLM) -> list[float]:
    decode(llm, [tokens(seed, 128) for seed in range(200, 264)])
    return [decode(llm, [tokens(seed, 128) for seed in range(100, 164)]) for _ in range(3)]


def throughput(llm: LLM) -> list[float]:
    draw = random.Random(0)
    prompts = [
        [draw.randint(0, 10_000) for _ in range(draw.randint(100, 1024))] for _ in range(256)
    ]
    lengths = [draw.randint(100, 1024) for _ in range(256)]
    params = [
        SamplingParams(max_tokens=n, temperature=0.6, ignore_eos=True, detokenize=False)
        for n in lengths
    ]
    return [sum(lengths) / timed(llm, prompts, params) for _ in range(3)]


def prefill(llm: LLM) -> list[float]:
    """Milliseconds of one long prompt."""
    timed(llm, [tokens(7, 16_384)], [greedy(1)])
    return [1e3 * timed(llm, [tokens(seed, 16_384)], [greedy(1)]) for seed in (8, 9, 10)]


def first_token(llm: LLM) -> list[float]:
    """Milliseconds of a prompt of 128 tokens, in process."""
    timed(llm, [tokens(7, 128)], [greedy(1)])
    return [1e3 * timed(llm, [tokens(seed, 128)], [greedy(1)]) for seed in range(11, 22)]


ROWS: dict[str, tuple[str, Callable[[LLM], list[float]]]] = {
    "decode1": ("tok/s", decode1),
    "decode64": ("tok/s", decode64),
    "throughput": ("tok/s", throughput),
    "prefill": ("ms", prefill),
    "first_token": ("ms", first_token),
}


def process_start() -> float:
    """When this process was created, in seconds since the epoch."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")


def measure(model: str, rows: list[str], options: dict[str, object]) -> Iterator[dict[str, object]]:
    begin = time.time()
    llm = LLM(
        str(model_folder(SHAPES[model])), device="cuda", load_format="dummy",
        max_model_len=MAX_LENGTH, enable_prefix_caching=False, **options,
    )  # fmt: skip
    with llm:
        timed(llm, [tokens(1, 32)], [greedy(1)])
        now = time.time()
        yield line(model, "start", "s", [now - begin]) | {
            "since_process_start_s": round(now - process_start(), 2),
            "interpreter_and_imports_s": round(STARTED - process_start(), 2),
        }
        for row in rows:
            unit, run = ROWS[row]
            yield line(model, row, unit, run(llm))


def line(model: str, row: str, unit: str, samples: list[float]) -> dict[str, object]:
    value, beside = statistics.median(samples), BESIDE[model, row]
    is_rate = unit == "tok/s"

    def ratio(other: float | None) -> float | None:
        if other is None:
            return None
        return round(value / other if is_rate else other / value, 3)

    return {
        "model": model, "row": row, "value": round(value, 2), "unit": unit,
        "samples": [round(sample, 2) for sample in samples],
        "of_vllm": ratio(beside.vllm), "of_limit": ratio(beside.limit),
        "of_target": ratio(beside.target),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--rows", nargs="*", choices=ROWS, default=list(ROWS))
    parser.add_argument("--options", type=json.loads, default={}, help="JSON, more of EngineArgs")
    args = parser.parse_args()
    for model in args.models:
        for result in measure(model, args.rows, args.options):
            print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
