"""``octavo serve`` as a process, for tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TextIO

import httpx

START_TIMEOUT_S = 120.0


class Server:
    """A running server. ``url`` is there once it is ready."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "octavo", "serve", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        self.out: list[str] = []
        self.errors: list[str] = []
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._readers = [
            threading.Thread(target=_keep, args=each, daemon=True)
            for each in ((self.process.stdout, self.out), (self.process.stderr, self.errors))
        ]
        for reader in self._readers:
            reader.start()

    def await_ready(self) -> str:
        """Wait for the announcement and return the address in it."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            for line in list(self.out):
                if found := re.search(r" at (http://\S+|unix socket .+)", line):
                    return found[1]
            time.sleep(0.02)
        raise AssertionError(f"not ready: {self.out} {self.errors}")

    def finish(self, timeout_s: float = 40.0) -> int:
        """Wait for the end of the root process and all that it wrote."""
        code = self.process.wait(timeout_s)
        for reader in self._readers:
            reader.join(10)
        return code

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.finish()

    def kill(self) -> None:
        """End the root at once; whatever a test has left of it."""
        self.process.kill()
        self.finish()

    def pids(self) -> dict[str, int]:
        """Descendants of the root by the module that they run."""
        found: dict[str, int] = {}
        for pid in _descendants(self.process.pid):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            found[words[words.index(b"-m") + 1].decode()] = pid
        return found


def metric(url: str, name: str) -> float:
    """One value of ``/metrics``, summed over its labels."""
    lines = httpx.get(f"{url}/metrics", timeout=30).text.splitlines()
    values = [line.rpartition(" ")[2] for line in lines if line.startswith(f"octavo:{name}{{")]
    assert values, f"no metric {name}"
    return sum(map(float, values))


def is_running(pid: int) -> bool:
    """Whether the process exists and has not merely been left unread by its parent."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def cpu_seconds(pid: int) -> float:
    """CPU time that the process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    # A child started by another thread of its parent is listed under that thread.
    for task in Path(f"/proc/{pid}/task").iterdir():
        if task.name != str(pid):
            children += (task / "children").read_text().split()
    return [found for child in map(int, children) for found in (child, *_descendants(child))]


def _keep(stream: TextIO, lines: list[str]) -> None:
    with stream:
        lines.extend(line.rstrip("\n") for line in stream)
