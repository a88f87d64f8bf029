"""A whole model on a CUDA device: CPU's tokens in float32, and equal bits in any company.

By hand, on a machine with a GPU:

    python -m tests.device.end_to_end
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from octavo.api.frontend.params import SamplingParams
from octavo.entrypoints.llm import LLM

VOCAB_SIZE = 1000
DECODER = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "dtype": "bfloat16",
    "vocab_size": VOCAB_SIZE, "hidden_size": 256, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 512,
    "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1e6,
    "max_position_embeddings": 2048, "attention_bias": False, "tie_word_embeddings": False,
}  # fmt: skip


def folder() -> str:
    """Write the configuration of a small model, and a tokenizer of one word."""
    path = Path(tempfile.mkdtemp(prefix="octavo-check-"))
    (path / "config.json").write_text(json.dumps(CONFIG))
    model = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
    (path / "tokenizer.json").write_text(
        json.dumps({"version": "1.0", "model": model, "decoder": DECODER})
    )
    return str(path)


def open_llm(device: str, dtype: str, **options: object) -> LLM:
    given = {"kv_cache_memory_bytes": 1 << 28, "max_num_seqs": 64, **options}
    return LLM(folder(), device=device, dtype=dtype, load_format="dummy", **given)


def prompt(key: int, length: int) -> list[int]:
    draw = random.Random(key)
    return [draw.randrange(VOCAB_SIZE) for _ in range(length)]


def params(count: int, **other: object) -> SamplingParams:
    given = {"temperature": 0.0, "ignore_eos": True, "detokenize": False, **other}
    return SamplingParams(max_tokens=count, **given)


PROMPTS = [prompt(key, 3 + 41 * key % 500) for key in range(40)]
ANSWERS = [
    params(12 + key % 30, temperature=0.0 if key % 2 else 0.8, seed=key) for key in range(40)
]


def tokens(llm: LLM, chosen: list[int]) -> list[list[int]]:
    """Token ids of some of the prompts, run together."""
    answers = llm.generate(
        [PROMPTS[key] for key in chosen], [ANSWERS[key] for key in chosen], use_tqdm=False
    )
    return [list(answer.outputs[0].token_ids) for answer in answers]


def claims(device: str) -> Iterator[tuple[str, bool]]:
    """Yield (claim, whether it holds)."""
    odd = [key for key in range(40) if key % 2]
    with open_llm("cpu", "float32") as llm:
        expected = tokens(llm, odd)
    with open_llm(device, "float32") as llm:
        found = tokens(llm, odd)
        yield "float32 greedy tokens are CPU's", found == expected
    everyone = list(range(40))
    with open_llm(device, "bfloat16") as llm:
        together = tokens(llm, everyone)
        yield "the same again, by graphs", tokens(llm, everyone) == together
        alone = [tokens(llm, [key])[0] for key in everyone]
        yield "alone (and after a prefix hit)", alone == together
        yield "in halves", tokens(llm, everyone[:20]) + tokens(llm, everyone[20:]) == together
        asked = [params(8, logprobs=5, temperature=0.0, top_p=1.0), params(8, seed=1, top_p=0.9)]
        pair = llm.generate(PROMPTS[:2], asked, use_tqdm=False)
        yield "log-probabilities and top-p", all(len(a.outputs[0].token_ids) == 8 for a in pair)
    options = {"enable_prefix_caching": False, "max_num_batched_tokens": 64, "max_num_seqs": 8}
    with open_llm(device, "bfloat16", **options) as llm:
        yield "in chunks of 64, 8 at a time", tokens(llm, everyone) == together
    with open_llm(device, "bfloat16", async_scheduling=False) as llm:
        yield "without overlap", tokens(llm, everyone) == together
    with open_llm(device, "bfloat16", kv_cache_memory_bytes=1 << 21, max_model_len=600) as llm:
        yield "with preemptions", tokens(llm, everyone) == together


def main() -> int:
    """Print every claim; fail if one does not hold."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    failed = 0
    for claim, holds in claims(parser.parse_args().device):
        failed += not holds
        print(f"{'ok  ' if holds else 'FAIL'} {claim}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
