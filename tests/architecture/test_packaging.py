"""The package builds as a source distribution and a wheel, and works when installed from each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import octavo
from tests.architecture.conftest import ROOT

pytestmark = pytest.mark.long


def run(*command: str, cwd: Path) -> str:
    """Run a command outside the checkout, without its modules; return what it printed."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=280
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both distributions, built from a copy of the checkout."""
    source = tmp_path_factory.mktemp("source") / "octavo"
    unwanted = shutil.ignore_patterns(
        ".git", ".venv", "site", "build", "dist", "*.egg-info", "__pycache__", ".*_cache"
    )
    shutil.copytree(ROOT, source, ignore=unwanted)
    target = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", str(target), str(source), cwd=target)
    return target


@pytest.mark.parametrize("pattern", ["*.whl", "*.tar.gz"])
def test_the_installed_distribution_has_a_working_command(
    built: Path, tmp_path: Path, pattern: str
) -> None:
    [distribution] = built.glob(pattern)
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    # Dependencies come from this environment; only octavo itself is installed.
    site = next(home.glob("lib/python*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = (str(home / "bin/python"), "-m", "pip", "install", "--no-deps", "--force-reinstall")
    run(*pip, str(distribution), cwd=tmp_path)

    said = run(str(home / "bin/octavo"), "--version", cwd=tmp_path)
    where = run(
        str(home / "bin/python"), "-c", "import octavo; print(octavo.__file__)", cwd=tmp_path
    )

    assert octavo.__version__ in said
    assert where.startswith(str(home))


def test_the_wheel_has_every_file_of_the_package_and_the_license(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    listed = run(sys.executable, "-m", "zipfile", "-l", str(wheel), cwd=built)

    for path in (ROOT / "octavo").rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            assert path.relative_to(ROOT).as_posix() in listed
    assert "octavo/py.typed" in listed
    assert "licenses/LICENSE" in listed
