"""A copy of the checkout in which a test may plant a violation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Checkout:
    """A checkout of the repository, the real one or a copy."""

    root: Path

    def plant(self, path: str, text: str) -> None:
        """Write ``text`` to ``path``, with empty packages where folders are new."""
        target = self.root / path
        for folder in [*target.parents][::-1]:
            if self.root / "octavo" in folder.parents and not folder.exists():
                folder.mkdir()
                (folder / "__init__.py").write_text('"""Planted."""\n')
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def append(self, path: str, text: str) -> None:
        """Add ``text`` to the end of the file at ``path``."""
        target = self.root / path
        target.write_text(target.read_text() + text)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a module of the interpreter (``ruff``, ``mypy`` ...) or a tool of this checkout."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root),
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }
        return subprocess.run(
            [sys.executable, *command],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def lint_imports(self) -> subprocess.CompletedProcess[str]:
        """Run import-linter with the contracts of pyproject.toml."""
        call = (
            "from importlinter.cli import lint_imports as run; raise SystemExit(run(no_cache=True))"
        )
        return self.run("-c", call)


@pytest.fixture
def checkout() -> Checkout:
    """The real one."""
    return Checkout(ROOT)


@pytest.fixture
def copy(tmp_path: Path) -> Checkout:
    """A copy of what the checks look at."""
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    for folder in ("octavo", "tools", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return Checkout(tmp_path)
