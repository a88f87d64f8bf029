"""The listening socket: bound by the root, served by the API process."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from pathlib import Path

from octavo.config.frontend import ServerConfig
from octavo.kit.errors import ConfigError

_BACKLOG = 2048


def listen(server: ServerConfig) -> socket.socket:
    """Bind and listen where the configuration says.

    Raises:
        ConfigError: the address is taken, forbidden or not one of this machine.
    """
    return _listen_tcp(server) if server.uds is None else _listen_unix(server.uds)


def stop_listening(listener: socket.socket, server: ServerConfig) -> None:
    """Close the socket, and remove the file of a unix socket. Idempotent."""
    listener.close()
    if server.uds is not None:
        with contextlib.suppress(FileNotFoundError):
            Path(server.uds).unlink()


def _listen_tcp(server: ServerConfig) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            server.host or None,
            server.port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )
    except OSError as error:
        raise ConfigError(
            "host",
            server.host,
            want=f"must be an address of this machine ({error.strerror or error})",
            fix="Use --host 127.0.0.1, or 0.0.0.0 for every address.",
        ) from error
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise _refusal(server, error) from error
    return listener


def _refusal(server: ServerConfig, error: OSError) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            "port",
            server.port,
            want=f"is taken by another program on {server.host}",
            fix="Stop that program, or use another --port; 0 takes a free one.",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return ConfigError(
            "port",
            server.port,
            want="needs a privilege that this user does not have",
            fix="Use a --port from 1024 on.",
        )
    return ConfigError(
        "host",
        server.host,
        want=f"must be an address of this machine ({error.strerror})",
        fix="Use --host 127.0.0.1, or 0.0.0.0 for every address.",
    )


def _listen_unix(path: str) -> socket.socket:
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            "uds",
            path,
            want=f"must be a path where a socket can be made ({error.strerror or error})",
            fix="Use a --uds in a folder that this user may write, of at most 100 characters.",
        ) from error
    return listener


def _remove_stale(path: str) -> None:
    """Remove a socket that nobody serves any more; leave everything else."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigError(
            "uds", path, want="is a file that is no socket", fix="Use another --uds path."
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink()
            return
        except OSError:
            return  # binding will say what is wrong
    raise ConfigError(
        "uds",
        path,
        want="is taken by another program",
        fix="Stop that program, or use another --uds path.",
    )
