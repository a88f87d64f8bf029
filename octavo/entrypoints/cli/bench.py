"""``octavo bench``: throughput, latency, serving under load, start-up."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

from octavo.kit.errors import ConfigError

_BENCHMARKS = {
    "throughput": "Tokens per second of many prompts handed over at once, in this process.",
    "latency": "Time of one batch of equal prompts, in this process.",
    "serve": "Times to first and per token of a server under load.",
    "startup": "Phases from the start of a server's process to its first token.",
}


def run(argv: list[str]) -> int:
    """Run the benchmark that the first word names, and return the exit code."""
    if not argv or argv[0] in ("-h", "--help"):
        print(_help())
        return 0 if argv else 2
    if argv[0] not in _BENCHMARKS:
        near = get_close_matches(argv[0], _BENCHMARKS, n=1)
        raise ConfigError(
            "benchmark",
            argv[0],
            want=f"must be one of {', '.join(_BENCHMARKS)}",
            fix=f"Did you mean {near[0]}?" if near else "See octavo bench --help.",
        )
    code: int = import_module(f"octavo.entrypoints.cli.bench_{argv[0]}").run(argv[1:])
    return code


def _help() -> str:
    lines = [f"  {name:<12}{text}" for name, text in _BENCHMARKS.items()]
    return "\n".join(("usage: octavo bench BENCHMARK [OPTIONS]", "", *lines))
