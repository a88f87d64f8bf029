"""``octavo bench startup``: where does the time from process start to first token go."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

import httpx
from tqdm import tqdm

from octavo.config.args import EngineArgs
from octavo.config.cli import parse
from octavo.entrypoints.cli.bench_report import (
    Figures,
    ReportArgs,
    percentile,
    require_positive,
)
from octavo.kit.errors import OctavoError, OperatorError

_PHASE = re.compile(r"^  ( *\S.*?)  +(\d+\.\d+) s$")
_MEANWHILE = "meanwhile"
_TOTAL = "ready after"
_PROMPT = list(range(100, 132))
_STOP_TIMEOUT_S = 30.0

Phases = dict[str, float]

_ABOUT = "Where does the time from process start to first token go?"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupArgs:
    """The measurement."""

    num_iters: int = 3
    """Starts; the report has the median one."""


def run(argv: list[str]) -> int:
    """Measure, report, and return the exit code."""
    args, startup, report = parse(
        argv, EngineArgs, StartupArgs, ReportArgs, prog="octavo bench startup", about=_ABOUT
    )
    require_positive(num_iters=startup.num_iters)
    starts = [measure(flags(args)) for _ in tqdm(range(startup.num_iters), unit="start")]
    starts.sort(key=lambda phases: sum(phases.values()))
    median = starts[(len(starts) - 1) // 2]
    totals = [sum(phases.values()) for phases in starts]
    result: Figures = {json_key(name): seconds for name, seconds in median.items()}
    result["total_s"] = sum(median.values())
    result["fastest_total_s"] = totals[0]
    result["p90_total_s"] = percentile(totals, 90)
    report.report("startup", result)
    return 0


def measure(engine_flags: list[str]) -> Phases:
    """Start a server, ask for one token, stop it; the phases add up to the whole time.

    Raises:
        OperatorError: the server did not start; the message is its own.
    """
    with tempfile.TemporaryDirectory(prefix="octavo-") as folder:
        socket = str(Path(folder) / "http")
        command = [sys.executable, "-m", "octavo", "serve", "--uds", socket, *engine_flags]
        started = time.perf_counter()
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as server:
            try:
                assert server.stdout is not None
                listed = read_phases(server.stdout)
                ready = time.perf_counter() - started
                if not listed:
                    raise _failure(server)
                _first_token(socket)
                first = time.perf_counter() - started
            finally:
                server.send_signal(signal.SIGTERM)
                try:
                    server.wait(_STOP_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    server.kill()
    rest = max(0.0, ready - sum(listed.values()))
    return {**listed, "spawn and hand-over": rest, "first token": first - ready}


def json_key(phase: str) -> str:
    """The name of a phase's seconds in JSON."""
    return "_".join(re.findall(r"[a-z0-9]+", phase.lower())) + "_s"


def read_phases(lines: Iterable[str]) -> Phases:
    """Phases of an announcement, in order, without those that run beside others."""
    phases: Phases = {}
    for line in lines:
        if match := _PHASE.match(line.rstrip("\n")):
            name, seconds = match[1].strip(), float(match[2])
            if name == _TOTAL:
                return phases
            if _MEANWHILE not in name:
                phases[name] = seconds
    return {}


def flags(args: EngineArgs) -> list[str]:
    """The command line that says the same as ``args``."""
    words = list[str]()
    for each in fields(args):
        value, flag = getattr(args, each.name), "--" + each.name.replace("_", "-")
        if value is None or value == ():
            continue
        if isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
        elif isinstance(value, tuple):
            words += [word for item in value for word in (flag, str(item))]
        else:
            words += [flag, str(value)]
    return words


def _first_token(socket: str) -> None:
    body = {"prompt": _PROMPT, "max_tokens": 1, "temperature": 0}
    transport = httpx.HTTPTransport(uds=socket)
    with httpx.Client(transport=transport, base_url="http://server", timeout=None) as client:
        answer = client.post("/v1/completions", json=body)
    if answer.is_error:
        raise OctavoError(f"the first request failed: {answer.text[:200]}")


def _failure(server: subprocess.Popen[str]) -> OctavoError:
    _, errors = server.communicate()
    lines = errors.strip().splitlines() or ["the server ended without a word"]
    return OperatorError(lines[-1].removeprefix("octavo: "))
