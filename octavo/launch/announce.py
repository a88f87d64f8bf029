"""What the root prints: the address, a line to try, the start by phase, and the wait at the end."""

from __future__ import annotations

import json
import os
import shlex
import socket
import time
from pathlib import Path

from octavo.config.frontend import ServerConfig
from octavo.contracts.launch import Serving
from octavo.contracts.output import EngineReady

_QUESTION = "What is the capital of Japan?"
_BEGINNING = "The capital of Japan is"


class StartClock:
    """Points in time of the start. Times before this process knew the clock are asked of Linux."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._command_s = _process_age_s()
        self._reached: dict[str, float] = {}

    def reached(self, point: str) -> None:
        self._reached[point] = time.monotonic() - self._began

    def phases(self, ready: EngineReady) -> list[tuple[str, float]]:
        """Name and duration of every phase until now, the total last, in seconds."""
        total = time.monotonic() - self._began + self._command_s
        imports = self._reached.get("imports", 0.0)
        return [
            ("command line, model headers", self._command_s),
            ("engine process", imports),
            *((f"  {name}", duration) for name, duration in ready.phases),
            ("HTTP, meanwhile", self._reached.get("http", 0.0)),
            ("ready after", total),
        ]


def announcement(
    serving: Serving, server: ServerConfig, *, address: str, model: str, clock: StartClock
) -> str:
    """The text for standard output."""
    ready = serving.ready
    phases = clock.phases(ready)
    width = max(len(name) for name, _ in phases)
    lines = [
        f"octavo {ready.version} serves {model} at {address}",
        f"context {ready.max_model_len} tokens, "
        f"KV cache {(ready.num_blocks - 1) * ready.block_size} tokens",
        *ready.notes,
        "",
        *(f"  {name:<{width}}  {duration:6.2f} s" for name, duration in phases),
        "",
        "Try it:",
        "  " + curl_line(server, address=address, model=model, has_chat=serving.has_chat),
        "",
    ]
    return "\n".join(lines)


def waiting(num_requests: int, grace_s: float) -> str:
    """The line about a server that ends: empty where it waits for nothing."""
    if not num_requests:
        return ""
    requests = "1 request" if num_requests == 1 else f"{num_requests} requests"
    return f"stopping: waiting for {requests}, up to {grace_s:g} s; Ctrl-C again ends at once\n"


def address_of(listener: socket.socket, server: ServerConfig) -> str:
    """A URL, or the path of a unix socket."""
    if server.uds is not None:
        return f"unix socket {Path(server.uds).absolute()}"
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def curl_line(server: ServerConfig, *, address: str, model: str, has_chat: bool = True) -> str:
    """A line for a shell that asks the model something, in a way that it understands."""
    asked: dict[str, object] = {"messages": [{"role": "user", "content": _QUESTION}]}
    path = "/v1/chat/completions"
    if not has_chat:
        asked, path = {"prompt": _BEGINNING}, "/v1/completions"
    body = json.dumps({"model": model, **asked, "temperature": 0})
    parts = ["curl"]
    if server.uds is not None:
        parts += ["--unix-socket", shlex.quote(str(Path(server.uds).absolute()))]
        address = "http://localhost"
    parts.append(shlex.quote(address + path))
    parts += ["-H", "'Content-Type: application/json'"]
    if server.api_keys:
        parts += ["-H", '"Authorization: Bearer $OCTAVO_API_KEY"']
    return " ".join([*parts, "-d", shlex.quote(body)])


def _process_age_s() -> float:
    """Time since this process was started, 0 where the system does not tell, in seconds."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)
    except (OSError, AttributeError, ValueError):
        return 0.0
