"""The text of a server that is ready."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

from octavo.config.frontend import ServerConfig
from octavo.contracts.launch import Serving
from octavo.contracts.output import EngineReady
from octavo.launch.announce import StartClock, address_of, announcement, curl_line, waiting
from octavo.launch.listening import listen

SERVER = ServerConfig(host="127.0.0.1", port=0, uds=None, api_keys=(), max_body_bytes=1)
READY = EngineReady(0, 0, 64, 9, 16, "0.1", [("load weights", 1.5)], ["note: numerics are fast"])


def test_the_curl_line_is_one_shell_command_with_a_valid_body() -> None:
    words = shlex.split(curl_line(SERVER, address="http://127.0.0.1:80", model='it\'s "mine"'))

    assert words[:2] == ["curl", "http://127.0.0.1:80/v1/chat/completions"]
    assert json.loads(words[words.index("-d") + 1])["model"] == 'it\'s "mine"'


def test_a_key_is_named_but_not_shown() -> None:
    line = curl_line(replace(SERVER, api_keys=("secret",)), address="http://h", model="m")

    assert "Bearer $OCTAVO_API_KEY" in line
    assert "secret" not in line


def test_a_unix_socket_is_named_in_the_curl_line() -> None:
    words = shlex.split(curl_line(replace(SERVER, uds="/tmp/a b"), address="x", model="m"))

    assert words[:4] == [
        "curl", "--unix-socket", "/tmp/a b", "http://localhost/v1/chat/completions",
    ]  # fmt: skip


def test_an_address_for_every_interface_is_shown_as_one_that_can_be_asked() -> None:
    every = replace(SERVER, host="0.0.0.0")
    with listen(every) as listener:
        port = listener.getsockname()[1]

        assert address_of(listener, every) == f"http://127.0.0.1:{port}"


def test_the_announcement_has_address_phases_and_notes() -> None:
    clock = StartClock()
    clock.reached("imports")
    clock.reached("http")

    text = announcement(
        Serving(READY, has_chat=True), SERVER, address="http://h:1", model="m", clock=clock
    )

    assert "serves m at http://h:1" in text
    assert "KV cache 128 tokens" in text
    assert "note: numerics are fast" in text
    assert [line.split()[-2] for line in text.splitlines() if "load weights" in line] == ["1.50"]
    assert "curl http://h:1/v1/chat/completions" in text


def test_the_wait_at_the_end_is_one_line_with_its_bound() -> None:
    assert waiting(0, 30.0) == ""
    assert waiting(1, 30.0) == (
        "stopping: waiting for 1 request, up to 30 s; Ctrl-C again ends at once\n"
    )
    assert "2 requests, up to 2.5 s" in waiting(2, 2.5)


def test_a_model_without_a_chat_template_is_asked_to_continue_a_text() -> None:
    serving = Serving(READY, has_chat=False)

    text = announcement(serving, SERVER, address="http://h:1", model="m", clock=StartClock())

    [line] = [line for line in text.splitlines() if line.lstrip().startswith("curl")]
    words = shlex.split(line)
    assert words[1] == "http://h:1/v1/completions"
    assert json.loads(words[words.index("-d") + 1])["prompt"]
    assert "chat" not in line
