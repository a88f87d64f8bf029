from __future__ import annotations

import json
from pathlib import Path

import pytest

from octavo.entrypoints.cli.inspect import run
from octavo.kit.errors import CheckpointError, ConfigError
from tests.unit.checkpoint import build


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(build.folder(tmp_path, model_type="mistral", sliding_window=64))


def test_the_text_says_what_would_run_and_why(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([folder, "--max-num-seqs", "3"]) == 0

    text = capsys.readouterr().out
    assert [line for line in text.splitlines() if line and line[0] != " "] == [
        "Model", "Server", "Decided", "Said", "Memory", "Installed",
    ]  # fmt: skip
    lines = {
        line.split()[0]: line.split(maxsplit=1)[1] for line in text.splitlines() if "  " in line
    }
    assert lines["architecture"] == "LlamaForCausalLM (mistral)"
    assert lines["windows"] == "64"
    assert lines["max_num_seqs"] == "3"
    assert lines["max_model_len"] == "512  (the model's longest context)"
    assert lines["blocks"].startswith("97 blocks of 16 tokens")


def test_json_has_the_same_in_one_object(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([folder, "--json", "--seed", "5"]) == 0

    report = json.loads(capsys.readouterr().out)
    assert report["config"]["model"]["path"] == folder
    assert report["config"]["frontend"]["seed"] == 5
    assert report["memory"]["total_bytes"] == sum(report["memory"]["regions"].values())
    assert report["said"] == {"model": folder, "seed": 5}
    assert {"option", "value", "reason"} == report["reasons"][0].keys()
    assert report["platforms"]["present"][-1]["name"] == "cpu"
    assert "uniproc" in report["extensions"]["executors"]


def test_a_model_without_windows_says_nothing_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([str(build.folder(tmp_path))]) == 0

    assert "\n  windows " not in capsys.readouterr().out


def test_what_cannot_run_is_raised_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError):
        run([str(tmp_path)])


def test_flags_and_files_of_the_server_are_shown_too(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "server.yaml"
    file.write_text("port: 9000\napi-key: hush\n")

    assert run([folder, "--json", "--config", str(file), "--host", "::1"]) == 0

    text = capsys.readouterr().out
    assert "hush" not in text
    assert json.loads(text)["server"] == {
        "host": "::1", "port": 9000, "num_api_keys": 1, "max_body_bytes": 32 << 20,
    }  # fmt: skip


def test_an_unknown_key_of_a_file_points_to_the_help_of_the_command(
    folder: str, tmp_path: Path
) -> None:
    file = tmp_path / "server.yaml"
    file.write_text("zzz: 9000\n")

    with pytest.raises(ConfigError, match=r"zzz in .*server.yaml: .* See octavo inspect --help\."):
        run([folder, "--config", str(file)])
