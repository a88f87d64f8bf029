"""`make setup` refuses an old Python in one line, and does its work once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.architecture.conftest import ROOT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with what `make setup` depends on."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make in ``folder``, by itself and not as a part of another make."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_an_old_python_is_refused_with_its_version_and_a_remedy(folder: Path) -> None:
    old = folder / "old-python"
    program = "import sys; sys.version_info = (3, 9, 1); exec(sys.argv[1])"
    old.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{program}" "$2"\n')
    old.chmod(0o755)

    result = make(folder, "setup", f"PYTHON={old}")

    assert result.returncode != 0
    assert "octavo needs Python 3.11 or newer" in result.stderr
    assert "is 3.9. Name another one: make setup PYTHON=" in result.stderr
    assert not (folder / ".venv").exists()


def test_a_second_set_up_does_nothing_and_is_quick(folder: Path) -> None:
    (folder / ".venv").mkdir()
    (folder / ".venv/.installed").touch()
    start = time.perf_counter()

    result = make(folder, "setup", "PYTHON=/no/such/python")

    assert result.returncode == 0
    assert list((folder / ".venv").iterdir()) == [folder / ".venv/.installed"]
    assert time.perf_counter() - start < 5


def test_a_changed_requirement_sets_up_again(folder: Path) -> None:
    (folder / ".venv").mkdir()
    (folder / ".venv/.installed").touch()
    later = time.time() + 60
    os.utime(folder / "constraints.txt", (later, later))

    assert "torch" in make(folder, "setup", "--dry-run").stdout
