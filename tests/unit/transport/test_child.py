"""Child processes and their lifeline."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from octavo.transport.base import PeerGone
from octavo.transport.child import Child, Lifeline, describe_exit

_ECHO = "tests.unit.transport.echo_child"


def test_messages_cross_whole_in_both_directions() -> None:
    child = Child(_ECHO, ["echo"])
    messages = [[b"a", b"", b"c" * 100_000], [b""], []]

    for message in messages:
        child.lifeline.send([*message])
        assert child.lifeline.receive() == message

    child.stop(5)
    child.stop(5)
    assert child.exit_code() == 0


def test_a_child_that_does_not_listen_is_killed() -> None:
    child = Child(_ECHO, ["deaf"])
    child.lifeline.receive()

    start = time.monotonic()
    child.stop(0.2)

    assert time.monotonic() - start < 3
    assert child.exit_code() == -9


def test_the_end_of_a_child_closes_its_lifeline() -> None:
    child = Child(_ECHO, ["exit"])

    with pytest.raises(PeerGone):
        child.lifeline.receive()
    assert child.wait(5)
    assert child.exit_code() == 3
    with pytest.raises(PeerGone):
        child.lifeline.send([bytes(1_000_000)])
    child.stop(1)


def test_a_killed_parent_takes_a_busy_child_with_it() -> None:
    code = f"""
from octavo.transport.child import Child
child = Child({_ECHO!r}, ["busy"])
child.lifeline.receive()
print(child.pid, flush=True)
child.wait(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()

    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        if Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] == "Z":
            break  # ended; whoever inherited it has not looked yet
        time.sleep(0.02)
    else:
        assert not Path(f"/proc/{pid}").exists()


def test_the_working_directory_does_not_replace_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit(9)")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.chdir(tmp_path)

    child = Child(_ECHO, ["echo"])
    child.lifeline.send([b"x"])

    assert child.lifeline.receive() == [b"x"]
    child.stop(5)


def test_bytes_that_are_no_message_are_refused() -> None:
    one, other = socket.socketpair()
    with one:
        one.sendall(b"\xff" * 100)

        with pytest.raises(PeerGone, match="something else"):
            Lifeline(other).receive()
    other.close()


def test_a_message_cut_off_by_the_end_is_no_message() -> None:
    one, other = socket.socketpair()
    with one:
        one.sendall(struct.pack("=II", 1, 1000) + b"short")

    with pytest.raises(PeerGone):
        Lifeline(other).receive()
    other.close()


def test_an_exit_is_described() -> None:
    assert describe_exit(3) == "exit code 3"
    assert describe_exit(-9) == "signal 9 (Killed)"
