from __future__ import annotations

import subprocess
import sys

import pytest

from octavo import __version__
from octavo.entrypoints.cli.main import main


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"octavo {__version__}\n"


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_help_lists_every_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in ("serve", "chat", "complete", "bench", "inspect"))


def test_no_command_is_an_error_that_helps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().out


@pytest.mark.parametrize(("word", "hint"), [("srve", "'serve'"), ("zzz", "chat"), ("", "serve")])
def test_an_unknown_command_suggests_the_nearest(
    word: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word]) == 2
    error = capsys.readouterr().err
    assert hint in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", ["serve", "chat", "complete", "bench throughput", "inspect"])
def test_an_unknown_flag_is_one_line_and_code_2(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--max-model-ln", "5"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("octavo: ")
    assert "--max-model-len" in error
    assert error.count("\n") == 1


def test_a_refused_connection_is_one_line_and_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["complete", "--url", "http://127.0.0.1:9", "x"]) == 2
    error = capsys.readouterr().err
    assert "nothing answers at http://127.0.0.1:9" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_version_and_help_import_nothing_but_the_standard_library(word: str) -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "from octavo.entrypoints.cli.main import main\n"
        f"main([{word!r}])\n"
        "tops = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(tops - set(sys.stdlib_module_names) - {'octavo'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


def test_the_package_is_a_command_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "octavo", "--version"], capture_output=True, text=True, check=True
    )

    assert done.stdout == f"octavo {__version__}\n"


def test_a_reader_that_leaves_ends_the_command_quietly(url: str) -> None:
    done = subprocess.run(
        [
            "bash",
            "-c",
            f"{sys.executable} -m octavo complete --url {url} x | true; exit ${{PIPESTATUS[0]}}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    assert done.returncode == 141


@pytest.mark.parametrize("command", [["complete", "-"], ["chat"]])
def test_input_that_is_not_utf8_is_one_line_and_code_2(command: list[str], url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "octavo", command[0], "--url", url, *command[1:]],
        input=b"\xe9t\xe9\n",
        capture_output=True,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr.decode() == (
        "octavo: standard input is not UTF-8 (byte 0xe9). Convert it, for instance with iconv.\n"
    )
