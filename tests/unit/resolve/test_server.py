from __future__ import annotations

import pytest

from octavo.config.args import ServerArgs
from octavo.config.frontend import ServerConfig
from octavo.kit.env import Environment
from octavo.kit.errors import ConfigError
from octavo.resolve.server import resolve_server

ENV = Environment(cache_dir=None, api_key=None)


def test_a_server_listens_to_this_machine_only_unless_told() -> None:
    assert resolve_server(ServerArgs(), ENV) == ServerConfig(
        host="127.0.0.1", port=8000, uds=None, api_keys=(), max_body_bytes=32 << 20
    )


def test_what_was_said_is_taken() -> None:
    said = ServerArgs(host="0.0.0.0", port=0, api_key=("a", "b", "a"), max_body_bytes=2048)

    server = resolve_server(said, Environment(cache_dir=None, api_key="c"))

    assert server == ServerConfig(
        host="0.0.0.0", port=0, uds=None, api_keys=("a", "b", "c"), max_body_bytes=2048
    )
    assert resolve_server(ServerArgs(uds="/s"), ENV).uds == "/s"


@pytest.mark.parametrize(
    ("said", "match"),
    [
        (ServerArgs(port=-1), "port=-1: must be from 0 to 65535"),
        (ServerArgs(port=65536), "port=65536"),
        (ServerArgs(max_body_bytes=0), "max_body_bytes=0"),
        (ServerArgs(uds="/s", port=1), "uds='/s': is instead of host and port"),
        (ServerArgs(uds="/s", host="a"), "uds='/s': is instead of host and port"),
        (ServerArgs(api_key=("",)), "must be printable ASCII and not empty"),
        (ServerArgs(api_key=("ø",)), "must be printable ASCII and not empty"),
        (ServerArgs(api_key=("a\n",)), "must be printable ASCII and not empty"),
    ],
)
def test_a_value_that_cannot_work_is_refused(said: ServerArgs, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        resolve_server(said, ENV)


def test_a_refused_key_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_server(ServerArgs(api_key=("sécret",)), ENV)

    assert "cret" not in str(caught.value)
