"""A stand-in for the hub's HTTP interface: model info, tree, HEAD and GET with ranges.

Large files are redirected to another path, as the hub does; a file can break off once.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """What the stand-in holds, and what it was asked for."""

    repos: dict[str, dict[str, bytes]]
    url: str = ""
    storage_url: str = ""
    """Another name of the same host, so that the client takes it for another one."""
    statuses: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Status and error code that a repository answers with, instead of its files."""
    breaks_after: dict[str, int] = field(default_factory=dict)
    """Bytes after which the first transfer of a file is cut."""
    served: list[str] = field(default_factory=list)
    """Files whose content was asked for, and with which range."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_HEAD(self) -> None:
        self._answer(has_body=False)

    def do_GET(self) -> None:
        self._answer(has_body=True)

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def _answer(self, *, has_body: bool) -> None:
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        if parts[:2] == ["api", "models"]:
            self._api(parts[2:])
        elif parts[0] == "storage":
            self._content("/".join(parts[1:3]), "/".join(parts[3:]), has_body=has_body)
        else:
            self._resolve("/".join(parts[:2]), parts[3], "/".join(parts[4:]), has_body=has_body)

    def _refusal(self, repo: str, revision: str) -> tuple[int, str] | None:
        if repo in self.hub.statuses:
            return self.hub.statuses[repo]
        if repo not in self.hub.repos:
            return 401, "RepoNotFound"
        return None if revision in ("main", COMMIT) else (404, "RevisionNotFound")

    def _api(self, parts: list[str]) -> None:
        repo, kind, revision = "/".join(parts[:2]), *(parts[2:4] or ["revision", "main"])
        if refusal := self._refusal(repo, revision):
            self._refuse(*refusal)
            return
        files = self.hub.repos[repo]
        tree = [
            {"type": "file", "path": name, "size": len(data), "oid": _etag(data)}
            for name, data in files.items()
        ]
        info = {"id": repo, "sha": COMMIT, "siblings": [{"rfilename": name} for name in files]}
        body = json.dumps(tree if kind == "tree" else info).encode()
        self._send(200, {"Content-Type": "application/json"}, body, has_body=True)

    def _resolve(self, repo: str, revision: str, file: str, *, has_body: bool) -> None:
        if refusal := self._refusal(repo, revision):
            self._refuse(*refusal)
            return
        data = self.hub.repos[repo].get(file)
        if data is None:
            self._refuse(404, "EntryNotFound")
            return
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{_etag(data)}"'}
        if file.endswith((".safetensors", ".gguf")):
            headers |= {
                "X-Linked-Etag": headers["ETag"],
                "X-Linked-Size": str(len(data)),
                "Location": f"{self.hub.storage_url}/storage/{repo}/{quote(file)}",
            }
            self._send(302, headers, b"", has_body=has_body)
            return
        if has_body:
            self.hub.served.append(file)
        self._send(200, headers, data, has_body=has_body)

    def _content(self, repo: str, file: str, *, has_body: bool) -> None:
        data = self.hub.repos[repo][file]
        start = int(self.headers.get("Range", "bytes=0-")[6:].split("-")[0])
        if has_body:
            self.hub.served.append(f"{file}@{start}" if start else file)
        if has_body and not start and file in self.hub.breaks_after:
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: self.hub.breaks_after.pop(file)])
            self.close_connection = True
            return
        headers = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if start else {}
        self._send(206 if start else 200, headers, data[start:], has_body=has_body)

    def _refuse(self, status: int, code: str) -> None:
        self._send(status, {"X-Error-Code": code}, b"{}", has_body=self.command == "GET")

    def _send(
        self, status: int, headers: Mapping[str, str], body: bytes, *, has_body: bool
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if has_body:
            self.wfile.write(body)


def _etag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextmanager
def running_hub(repos: dict[str, dict[str, bytes]]) -> Iterator[Hub]:
    """Serve ``repos`` on a free port of this machine."""
    hub = Hub(repos)
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    hub.storage_url = f"http://localhost:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
