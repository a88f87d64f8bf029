"""Alternating measurements: two or more ways to do the same, in turns, in one run.

These machines are noisy, so a time alone says nothing: what counts is the ratio within a turn,
and its spread over turns. One JSON line per comparison.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Comparison:
    """Seconds of each way in each turn."""

    name: str
    samples: dict[str, list[float]]

    def ratios(self, of: str, to: str) -> list[float]:
        """How many times longer ``to`` took than ``of``, turn by turn."""
        pairs = zip(self.samples[of], self.samples[to], strict=True)
        return [slow / fast for fast, slow in pairs]

    def report(self, of: str, to: str, **more: object) -> str:
        """One JSON line: medians, the ratio's median and its least and greatest value."""
        ratios = sorted(self.ratios(of, to))
        line = {
            "benchmark": self.name,
            "compared": f"{to} / {of}",
            "ratio": round(statistics.median(ratios), 3),
            "ratio_spread": [round(ratios[0], 3), round(ratios[-1], 3)],
            "median_s": {n: round(statistics.median(s), 4) for n, s in self.samples.items()},
            "turns": len(ratios),
            **more,
            "machine": machine(),
        }
        return json.dumps(line)


def alternate(name: str, ways: dict[str, Callable[[], object]], *, turns: int) -> Comparison:
    """Run every way once as a warm-up, then in turns."""
    for run in ways.values():
        run()
    samples: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(turns):
        for way, run in ways.items():
            start = time.perf_counter()
            run()
            samples[way].append(time.perf_counter() - start)
    return Comparison(name, samples)


def machine() -> str:
    """Say what this ran on, and how busy it was."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    cores = len(os.sched_getaffinity(0))
    return (
        f"{model}, {cores} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}"
    )
