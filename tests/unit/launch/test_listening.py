"""The listening socket, and what is said where it cannot be had."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from octavo.config.frontend import ServerConfig
from octavo.kit.errors import ConfigError
from octavo.launch.listening import listen, stop_listening


def at(host: str = "127.0.0.1", port: int = 0, uds: str | None = None) -> ServerConfig:
    return ServerConfig(host=host, port=port, uds=uds, api_keys=(), max_body_bytes=1)


def test_a_free_port_is_taken_and_answers() -> None:
    listener = listen(at())

    with socket.create_connection(listener.getsockname()):
        pass
    stop_listening(listener, at())
    stop_listening(listener, at())


def test_a_taken_port_names_itself_and_the_fix() -> None:
    first = listen(at())
    port = first.getsockname()[1]

    with pytest.raises(ConfigError, match=rf"port={port}: is taken .* another --port"):
        listen(at(port=port))
    first.close()


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match=f"host='{host}': must be an address of this machine"):
        listen(at(host=host))


def test_every_address_can_be_served() -> None:
    listener = listen(at(host="0.0.0.0"))

    assert listener.getsockname()[0] == "0.0.0.0"
    listener.close()


def test_a_unix_socket_comes_and_goes_with_the_server(tmp_path: Path) -> None:
    server = at(uds=str(tmp_path / "s"))
    listener = listen(server)
    assert (tmp_path / "s").is_socket()

    stop_listening(listener, server)
    stop_listening(listener, server)

    assert not (tmp_path / "s").exists()


def test_a_stale_unix_socket_is_replaced(tmp_path: Path) -> None:
    server = at(uds=str(tmp_path / "s"))
    listen(server).close()

    stop_listening(listen(server), server)


def test_a_served_unix_socket_is_refused(tmp_path: Path) -> None:
    server = at(uds=str(tmp_path / "s"))
    first = listen(server)

    with pytest.raises(ConfigError, match="is taken by another program"):
        listen(server)
    first.close()


def test_a_file_is_not_replaced_by_a_socket(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("precious")

    with pytest.raises(ConfigError, match="is a file that is no socket"):
        listen(at(uds=str(tmp_path / "s")))
    assert (tmp_path / "s").read_text() == "precious"


@pytest.mark.parametrize("name", ["missing/s", "s" * 200])
def test_a_path_that_cannot_be_made_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be a path where a socket can be made"):
        listen(at(uds=str(tmp_path / name)))
