"""What do the command line and the API process cost before they do anything?

Question: CPU time of ``octavo --version`` and ``octavo --help`` against a bare ``python -c pass``,
and of the API process's imports against ``import torch``. Alternating; JSON lines of ratios.

    python benchmarks/start.py [--turns 10]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys

from benchmarks.measure import Comparison

WAYS = {
    "bare": [sys.executable, "-c", "pass"],
    "--version": [sys.executable, "-m", "octavo", "--version"],
    "--help": [sys.executable, "-m", "octavo", "--help"],
    "API imports": [sys.executable, "-c", "import octavo.launch.api_process"],
    "import torch": [sys.executable, "-c", "import torch"],
}


def cpu_time_of(command: list[str]) -> float:
    """Run a command and return its CPU time. [s]"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=10)
    args = parser.parse_args()
    for command in WAYS.values():
        cpu_time_of(command)
    samples: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(args.turns):
        for way, command in WAYS.items():
            samples[way].append(cpu_time_of(command))
    found = Comparison("start", samples)
    print(found.report("bare", "--version", wanted="at most 10"))
    print(found.report("bare", "--help", wanted="at most 20"))
    print(found.report("import torch", "API imports", wanted="at most 0.5"))


if __name__ == "__main__":
    main()
