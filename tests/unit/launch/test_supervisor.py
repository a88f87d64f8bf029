"""The root process: news, failures, signals, and no child left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SERVING = "api:ready api:drain engine:drain"


class Root:
    """A running root process and what it has said so far."""

    def __init__(self, script: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.unit.launch.scripted_root", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self.pids = self.await_line("pids").split()[1:]

    def await_line(self, start: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())
            if line.startswith(start):
                return line
        raise AssertionError(self.lines)

    def finish(self) -> int:
        """Wait for the end, which must come soon, and leave no child."""
        out, self.errors = self.process.communicate(timeout=15)
        self.lines += out.splitlines()
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and any(is_running(pid) for pid in self.pids):
            time.sleep(0.02)
        assert not any(is_running(pid) for pid in self.pids)
        return self.process.returncode


def is_running(pid: str) -> bool:
    """Whether the process exists and has not merely been left unread by its parent."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.fixture
def roots() -> Iterator[list[Root]]:
    started: list[Root] = []
    yield started
    for root in started:
        root.process.kill()
        root.process.communicate()


def begin(roots: list[Root], script: str) -> Root:
    roots.append(Root(script))
    return roots[-1]


def test_news_of_both_children_arrive(roots: list[Root]) -> None:
    root = begin(roots, SERVING)

    assert root.await_line("ready").split() == ["ready", "9"]
    root.process.terminate()

    assert root.finish() == 0
    assert {"reached imports", "reached http", "drain"} <= set(root.lines)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_with_the_grace(number: int, roots: list[Root]) -> None:
    root = begin(roots, SERVING)
    root.await_line("ready")

    root.process.send_signal(number)

    assert root.finish() == 0
    assert "grace 7.0" in root.errors
    assert "draining 3" in root.lines


def test_a_second_signal_ends_at_once(roots: list[Root]) -> None:
    root = begin(roots, "api:ready api:hang engine:hang")
    root.await_line("ready")

    start = time.monotonic()
    root.process.terminate()
    root.await_line("drain")
    root.process.terminate()

    assert root.finish() == 128 + signal.SIGTERM
    assert time.monotonic() - start < 6


def test_a_signal_during_the_start_waits_for_nobody(roots: list[Root]) -> None:
    root = begin(roots, "engine:hang api:hang")
    root.await_line("reached")

    start = time.monotonic()
    root.process.terminate()

    assert root.finish() == 0
    assert time.monotonic() - start < 6


def test_a_setup_that_the_operator_can_mend_is_told_as_such(roots: list[Root]) -> None:
    root = begin(roots, "engine:refuse api:drain")

    assert root.finish() == 2
    assert root.lines[-1] == "operator: weights are cut off"
    assert "Traceback" not in root.errors


def test_a_bug_in_a_child_is_one_line_and_ends_everything(roots: list[Root]) -> None:
    root = begin(roots, "api:ready api:drain engine:wait engine:break")

    assert root.finish() == 1
    assert root.lines[-1] == "died: ValueError: a bug in two lines"


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("engine:die api:drain", "the engine process ended with signal 9 (Killed)"),
        ("api:die engine:drain", "the api process ended with signal 9 (Killed)"),
        ("api:leave engine:drain", "the api process ended with exit code 0"),
    ],
)
def test_the_death_of_a_child_ends_everything(script: str, cause: str, roots: list[Root]) -> None:
    root = begin(roots, script)

    assert root.finish() == 1
    assert root.lines[-1] == f"died: {cause}"


def test_a_killed_root_leaves_no_child(roots: list[Root]) -> None:
    root = begin(roots, "api:ready api:hang engine:hang")
    root.await_line("ready")

    root.process.kill()

    assert root.finish() == -9
