"""The environment is read in one place, and an empty variable is an unset one."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from octavo.kit.env import child_environment, read_environment


def test_without_variables_there_are_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OCTAVO_CACHE", raising=False)
    monkeypatch.delenv("OCTAVO_API_KEY", raising=False)

    environment = read_environment()

    assert environment.cache_dir is None
    assert environment.api_key is None


def test_variables_are_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path))
    monkeypatch.setenv("OCTAVO_API_KEY", "secret")

    environment = read_environment()

    assert environment.cache_dir == tmp_path
    assert environment.api_key == "secret"


def test_an_empty_variable_is_an_unset_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", "")
    monkeypatch.setenv("OCTAVO_API_KEY", "")

    environment = read_environment()

    assert environment.cache_dir is None
    assert environment.api_key is None


def test_the_devices_shown_by_the_driver_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert read_environment().visible_devices == ""

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert read_environment().visible_devices is None


def test_a_home_folder_in_a_path_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", "~/models")

    assert read_environment().cache_dir == Path.home() / "models"


def test_a_child_finds_a_package_that_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/already/there")

    environment = child_environment(tmp_path)

    assert environment["PYTHONPATH"] == f"{tmp_path}{os.pathsep}/already/there"
    assert environment["PATH"] == os.environ["PATH"]


def test_a_child_of_a_process_without_a_path_gets_the_package_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)

    assert child_environment(tmp_path)["PYTHONPATH"] == str(tmp_path)


def test_a_child_finds_an_installed_package_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)

    assert child_environment(Path(sysconfig.get_path("purelib"))) == dict(os.environ)


def test_threads_of_torch_wait_asleep_unless_the_user_says_otherwise() -> None:
    # In a fresh interpreter: this one has loaded its thread library already.
    code = "import os, octavo.device; print(os.environ.get('GOMP_SPINCOUNT'))"
    kept = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}

    def spins(**said: str) -> str:
        command = [sys.executable, "-c", code]
        return subprocess.run(
            command, env=kept | said, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert spins() == "2000"
    assert spins(GOMP_SPINCOUNT="7") == "7"
    assert spins(OMP_WAIT_POLICY="active") == "None"
