"""How much sooner does a mostly cached prompt reach its first token?

Question: time to first token of a prompt of 2,000 tokens of which 90 % is cached, against the
same length cold, on the demo model. Cold and warm alternate; every prompt is new.

    python benchmarks/prefix.py [--turns 5] [--tokens 2000] [--share 0.9]
"""

from __future__ import annotations

import argparse
import random

from benchmarks.measure import alternate
from octavo import LLM, SamplingParams


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--share", type=float, default=0.9)
    args = parser.parse_args()
    rng = random.Random(0)
    params = SamplingParams(temperature=0.0, max_tokens=1)
    num_shared = int(args.tokens * args.share)
    shared = [rng.randint(100, 10_000) for _ in range(num_shared)]

    def fresh(count: int) -> list[int]:
        return [rng.randint(100, 10_000) for _ in range(count)]

    with LLM(log_level="warning") as llm:
        llm.generate([shared], params, use_tqdm=False)
        hits: list[int] = []

        def warm() -> None:
            prompt = shared + fresh(args.tokens - num_shared)
            [output] = llm.generate([prompt], params, use_tqdm=False)
            hits.append(output.num_cached_tokens)

        def cold() -> None:
            llm.generate([fresh(args.tokens)], params, use_tqdm=False)

        found = alternate("prefix", {"cached": warm, "cold": cold}, turns=args.turns)
    print(found.report("cached", "cold", prompt_tokens=args.tokens, cached_tokens=min(hits)))


if __name__ == "__main__":
    main()
