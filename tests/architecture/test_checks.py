"""`make check` runs every tool, and each tool is shown to fail on a planted violation."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.architecture.conftest import ROOT, Checkout

TOOLS = ("ruff check", "ruff format --check", "mypy", "lint-imports", "check_sizes", "check_files")
RUFF = ("-m", "ruff", "check", "--no-cache", "--output-format=concise", "octavo")


@pytest.mark.parametrize("tool", [*TOOLS, "codespell"])
def test_make_check_runs_it(tool: str) -> None:
    [recipe] = re.findall(
        r"^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE
    )

    assert tool in recipe


def test_make_lists_its_commands_without_installing_anything() -> None:
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    for target in ("serve", "test", "setup", "check", "quick", "test-long", "docs"):
        assert f"make {target} " in listed


def test_continuous_integration_is_a_valid_script() -> None:
    script = ROOT / ".ci/run"

    assert script.stat().st_mode & 0o111
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    assert "set -euo pipefail" in script.read_text()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("def f(x):\n    return x\n", "ANN001"),
        ("try:\n    X = 1\nexcept Exception:\n    X = 2\n", "BLE001"),
        ("import pickle\n\nX = pickle.loads(b'')\n", "S301"),
        ("X = eval('1')\n", "S307"),
        ("print('hello')\n", "T201"),
        ("# x = compute(1)\nX = 1\n", "ERA001"),
        ("from ..kit import errors\n", "TID252"),
        ("def f(a: int, b: bool) -> None: ...\n", "FBT001"),
        ("import logging\n\nlogging.getLogger('x').info(f'{1}')\n", "G004"),
        ("def f(a: int, b: int, c: int, d: int, e: int, f: int, g: int) -> None: ...\n", "PLR0913"),
    ],
)
def test_the_linter_refuses_what_the_style_refuses(copy: Checkout, text: str, rule: str) -> None:
    copy.plant("octavo/kit/planted.py", text)

    result = copy.run(*RUFF)

    assert result.returncode == 1
    assert re.search(rf"octavo/kit/planted\.py:\d+:\d+: {rule}", result.stdout), result.stdout


def test_the_formatter_refuses_another_form(copy: Checkout) -> None:
    copy.plant("octavo/kit/planted.py", "X   =  {1:2}\n")

    result = copy.run("-m", "ruff", "format", "--no-cache", "--check", "octavo")

    assert result.returncode == 1
    assert "octavo/kit/planted.py" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("X: int = 'text'\n", "assignment"),
        ("def f(x):  # noqa\n    return x\n", "no-untyped-def"),
        (
            "from octavo.contracts.request import Abort\n\nX = Abort([]).reqest_ids\n",
            "attr-defined",
        ),
        ("from octavo.contracts.request import Abort\n\nX = Abort()\n", "call-arg"),
        ("X: int = 1  # type: ignore\n", "unused-ignore"),
    ],
)
def test_the_type_checker_refuses_a_mistake(copy: Checkout, text: str, code: str) -> None:
    copy.plant("octavo/kit/planted.py", text)

    result = copy.run("-m", "mypy", "octavo/kit/planted.py", "--cache-dir", ".mypy_cache")

    assert result.returncode == 1
    assert re.search(rf"octavo/kit/planted\.py:\d+: error: .*\[{code}\]", result.stdout), (
        result.stdout
    )


def test_the_speller_refuses_a_typo(copy: Checkout) -> None:
    copy.plant("octavo/kit/planted.py", '"""The ' + "reci" + 'eve function."""\n')

    result = copy.run(
        "-c", "from codespell_lib import _script_main as run; raise SystemExit(run())"
    )

    assert result.returncode != 0
    assert "planted.py" in result.stdout
