"""How does octavo's throughput on the demo model compare with transformers' on a CPU?

Question: 16 concurrent requests of 128 prompt and 128 output tokens, greedy, float32, same
weights, same threads: octavo against ``generate()`` one request at a time, and against one
``generate()`` of all 16. The ways alternate in one process; JSON lines.

    python benchmarks/throughput.py [--turns 3] [--requests 16] [--prompt 128] [--output 128]
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import torch

from benchmarks.measure import alternate
from benchmarks.peer_transformers import TransformersPeer
from octavo import LLM, SamplingParams


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--output", type=int, default=128)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--skip-single", action="store_true", help="leave out one at a time")
    args = parser.parse_args()
    rng = random.Random(0)
    prompts = [[rng.randint(100, 10_000) for _ in range(args.prompt)] for _ in range(args.requests)]
    params = SamplingParams(
        temperature=0.0, max_tokens=args.output, ignore_eos=True, detokenize=False
    )
    with LLM(enable_prefix_caching=False, threads=args.threads, log_level="warning") as llm:
        peer = TransformersPeer(Path(llm.config.model.path), threads=args.threads)
        ways = {"octavo": lambda: llm.generate(prompts, params, use_tqdm=False)}
        ways["transformers batch"] = lambda: peer.as_batch(prompts, args.output)
        if not args.skip_single:
            ways["transformers one by one"] = lambda: peer.one_by_one(prompts, args.output)
        found = alternate("throughput", ways, turns=args.turns)
    tokens = args.requests * args.output
    for way in list(ways)[1:]:
        rates = {n: round(tokens / min(s), 1) for n, s in found.samples.items()}
        print(found.report("octavo", way, output_tokens=tokens, best_tokens_per_s=rates))


if __name__ == "__main__":
    main()
