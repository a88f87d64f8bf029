"""Start, end and death of a server's processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.serve.conftest import StartServer
from tests.serve.server import Server, cpu_seconds, is_running

pytestmark = pytest.mark.slow

ENGINE = "octavo.launch.engine_process"
API = "octavo.launch.api_process"
WORKER = "octavo.device.main"
ANSWER_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def served(tiny_model: str) -> Iterator[Server]:
    """A server that several tests ask."""
    server = Server(tiny_model, "--port", "0", "--threads", "1", "--served-model-name", "it's tiny")
    server.await_ready()
    yield server
    assert server.stop() == 0
    assert "Traceback" not in "\n".join(server.errors)


def test_the_curl_line_works(served: Server) -> None:
    [line] = [line for line in served.out if line.lstrip().startswith("curl")]

    answer = subprocess.run(
        ["sh", "-c", line], capture_output=True, timeout=ANSWER_TIMEOUT_S, check=True
    )

    assert b'"chat.completion"' in answer.stdout


def test_the_curl_line_works_for_a_model_without_a_chat_template(
    tiny_model: str, tmp_path: Path, start_server: StartServer
) -> None:
    plain = tmp_path / "plain"
    shutil.copytree(tiny_model, plain)
    for file in plain.glob("chat_template*"):
        file.unlink()
    config = plain / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"chat_template": None}))
    server = start_server(str(plain))
    server.await_ready()
    while not (lines := [line for line in server.out if line.lstrip().startswith("curl")]):
        time.sleep(0.02)

    answer = subprocess.run(
        ["sh", "-c", lines[0]], capture_output=True, timeout=ANSWER_TIMEOUT_S, check=True
    )

    assert b'"text_completion"' in answer.stdout


def test_the_phases_of_the_start_are_told(served: Server) -> None:
    told = "\n".join(served.out)

    for phase in ("command line", "import", "weights", "KV cache", "warm up", "HTTP", "ready"):
        assert phase in told


def test_health_answers_before_the_engine_is_ready_also_on_a_unix_socket(
    tiny_model: str, start_server: StartServer, tmp_path: Path
) -> None:
    path = str(tmp_path / "octavo.sock")
    server = start_server(tiny_model, "--uds", path)
    while not Path(path).is_socket():
        time.sleep(0.02)
    time.sleep(0.1)  # from the file to a socket that listens
    statuses: list[tuple[int, int]] = []

    with httpx.Client(transport=httpx.HTTPTransport(uds=path), base_url="http://octavo") as client:
        while not statuses or statuses[-1][1] != 200:
            answers = [client.get(f"/{page}", timeout=60) for page in ("health", "ready")]
            statuses.append((answers[0].status_code, answers[1].status_code))
        answer = client.post("/v1/completions", json=_request("hi", 4))

    assert statuses[0] == (200, 503)
    assert statuses[-1] == (200, 200)
    assert answer.json()["usage"]["completion_tokens"] == 4
    assert server.await_ready() == f"unix socket {path}"
    assert server.stop() == 0
    assert not Path(path).exists()


def test_sigterm_lets_running_requests_finish_and_takes_no_new_ones(
    tiny_model: str, start_server: StartServer
) -> None:
    server = start_server(tiny_model)
    url = server.await_ready()
    pids = server.pids()
    texts: list[str] = []
    begun = threading.Event()

    def read() -> None:
        body = _request("long", 400) | {"stream": True}
        with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=60) as answer:
            for line in answer.iter_lines():
                texts.append(line)
                begun.set()

    reader = threading.Thread(target=read)
    reader.start()
    begun.wait(ANSWER_TIMEOUT_S)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)

    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/health")
    reader.join(ANSWER_TIMEOUT_S)

    assert "data: [DONE]" in texts
    assert sum('"text"' in line for line in texts) > 100
    assert [line for line in server.errors if line.startswith("stopping: waiting for 1 request,")]
    assert server.finish() == 0
    assert not any(map(is_running, pids.values()))


@pytest.mark.parametrize("executor", ["multiproc", pytest.param("uniproc", marks=pytest.mark.long)])
def test_a_killed_root_leaves_no_process_and_no_folder(
    executor: str, tiny_model: str, start_server: StartServer, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    server = start_server(tiny_model, "--executor", executor)
    server.await_ready()
    pids = server.pids()
    assert {ENGINE, API} <= set(pids)
    assert (WORKER in pids) == (executor == "multiproc")
    assert list(tmp_path.glob("octavo-*"))

    server.process.send_signal(signal.SIGKILL)

    assert _all_end(list(pids.values()), within_s=10)
    assert not list(tmp_path.glob("octavo-*"))


@pytest.mark.long
@pytest.mark.parametrize(
    ("victim", "cause"),
    [
        (API, "the api process ended with signal 9 (Killed)"),
        (WORKER, "ended with signal 9 (Killed)"),
    ],
)
def test_a_killed_child_ends_the_server_with_its_cause_on_one_line(
    victim: str, cause: str, tiny_model: str, start_server: StartServer
) -> None:
    server = start_server(tiny_model, "--executor", "multiproc")
    server.await_ready()
    pids = server.pids()

    os.kill(pids[victim], signal.SIGKILL)

    assert server.finish() == 1
    assert [line for line in server.errors if line.startswith("octavo: ")][-1].endswith(cause)
    assert _all_end(list(pids.values()), within_s=10)


def test_a_killed_engine_is_told_to_its_clients_and_on_one_line(
    tiny_model: str, start_server: StartServer
) -> None:
    server = start_server(tiny_model)
    url = server.await_ready()
    lines: list[str] = []
    body = _request("long", 400) | {"stream": True}

    with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=60) as answer:
        for line in answer.iter_lines():
            lines.append(line)
            if len(lines) == 5:
                os.kill(server.pids()[ENGINE], signal.SIGKILL)

    assert any('"error"' in line for line in lines)
    assert server.finish() == 1
    assert server.errors[-1] == "octavo: the engine process ended with signal 9 (Killed)"


def test_a_taken_port_is_one_line_and_exit_code_2(
    tiny_model: str, start_server: StartServer
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = start_server(tiny_model, "--port", str(port))

        assert server.finish() == 2

    assert server.out == []
    [line] = server.errors
    assert f"port={port}: is taken" in line
    assert "another --port" in line


def test_an_engine_that_cannot_start_is_one_line_and_exit_code_2(
    tmp_path: Path, tiny_model: str, start_server: StartServer
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in Path(tiny_model).iterdir():
        body = file.read_bytes()
        if file.suffix == ".safetensors":
            body = body.replace(b"model.layers.1.mlp.up_proj", b"model.layers.1.mlp.no_proj")
        (broken / file.name).write_bytes(body)
    server = start_server(str(broken))

    assert server.finish() == 2

    said = [line for line in server.errors if line.startswith("octavo: ")]
    assert len(said) == 1
    assert "no_proj" in said[0] or "up_proj" in said[0]
    assert "Traceback" not in "\n".join(server.errors)


def test_an_interrupted_start_ends_at_once(tiny_model: str, start_server: StartServer) -> None:
    server = start_server(tiny_model)
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while len(pids := server.pids()) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)

    start = time.monotonic()
    server.process.send_signal(signal.SIGINT)

    assert server.finish() == 0
    assert time.monotonic() - start < 8
    assert _all_end(list(pids.values()), within_s=5)


def test_an_idle_server_uses_no_cpu(served: Server) -> None:
    assert _idle_cpu_s(served) <= 0.04


@pytest.mark.long
def test_an_idle_server_with_a_worker_process_uses_no_cpu(
    tiny_model: str, start_server: StartServer
) -> None:
    server = start_server(tiny_model, "--executor", "multiproc")
    server.await_ready()

    assert _idle_cpu_s(server) <= 0.04


def _idle_cpu_s(server: Server) -> float:
    """CPU time of all processes in two seconds after a request."""
    url = server.await_ready()
    httpx.post(f"{url}/v1/completions", json=_request("hi", 4), timeout=ANSWER_TIMEOUT_S)
    time.sleep(0.5)
    pids = [server.process.pid, *server.pids().values()]
    before = sum(map(cpu_seconds, pids))
    time.sleep(2)
    return sum(map(cpu_seconds, pids)) - before


def _request(prompt: str, max_tokens: int) -> dict[str, object]:
    return {"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True}


def _all_end(pids: list[int], *, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(map(is_running, pids))
