"""In a running server, only the process with the model has loaded torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serve.conftest import StartServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="asks Linux what is mapped"),
]


def has_torch(pid: int) -> bool:
    """Whether the process has mapped a library of torch."""
    return "/torch/lib/" in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.parametrize("executor", ["uniproc", "multiproc"])
def test_one_process_of_a_server_has_torch(
    tiny_model: str, start_server: StartServer, executor: str
) -> None:
    server = start_server(
        tiny_model, "--executor", executor, "--kv-cache-memory-bytes", "1M", "--max-num-seqs", "2"
    )
    server.await_ready()

    processes = {"root": server.process.pid, **server.pids()}
    with_torch = [name for name, pid in processes.items() if has_torch(pid)]

    assert len(processes) == (3 if executor == "uniproc" else 4), processes
    assert len(with_torch) == 1
    assert with_torch != ["root"]
    assert not any("api" in name for name in with_torch)
