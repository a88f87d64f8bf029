"""What the README and the documentation name exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.conftest import ROOT, Checkout
from tools.make_reference import argument_classes

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
SPOKEN = [page for page in PAGES if page.name not in ("architecture.md", "style.md")]
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
_MAKE = re.compile(r"(?:^|[`\n])make ([a-z][a-z-]*)")
_COMMAND = re.compile(r"^(?:.*\| )?octavo ([a-z]+)(.*)$", re.MULTILINE)
OTHER_TOOLS = {"--no-deps", "--index-url", "--version", "--help", "--config", "--no-"}


def code_blocks(page: Path, language: str) -> Iterator[str]:
    """Texts of the fenced blocks in ``language``."""
    return (text for kind, text in _FENCE.findall(page.read_text()) if kind == language)


@cache
def help_of(*words: str) -> str:
    """What ``octavo WORDS --help`` prints."""
    result = Checkout(ROOT).run("-m", "octavo", *words, "--help")
    assert result.returncode == 0, result.stderr
    return result.stdout


def by_path(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=by_path)
def test_links_lead_somewhere(page: Path) -> None:
    targets = _LINK.findall(page.read_text())

    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", SPOKEN, ids=by_path)
def test_python_examples_parse(page: Path) -> None:
    for text in code_blocks(page, "python"):
        ast.parse(text)


@pytest.mark.parametrize("page", SPOKEN, ids=by_path)
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert set(_MAKE.findall(page.read_text())) <= targets


@pytest.mark.parametrize("page", SPOKEN, ids=by_path)
def test_flags_exist(page: Path) -> None:
    flags = {
        f"--{field.name.replace('_', '-')}" for cls in argument_classes() for field in fields(cls)
    }
    negated = {flag.replace("--", "--no-", 1) for flag in flags}

    assert set(_FLAG.findall(page.read_text())) <= flags | negated | OTHER_TOOLS


@pytest.mark.parametrize("page", SPOKEN, ids=by_path)
def test_commands_exist_and_take_the_flags_shown(page: Path) -> None:
    for block in code_blocks(page, "text"):
        for command, rest in _COMMAND.findall(block):
            assert f"  {command} " in help_of(), f"octavo --help does not list {command}"
            flags = _FLAG.findall(rest)
            if flags:
                words = [command, rest.split()[0]] if command == "bench" else [command]
                known = set(_FLAG.findall(help_of(*words)))
                assert set(flags) <= known | {"--version", "--help"}, f"octavo {command}{rest}"


def test_every_command_has_a_page() -> None:
    commands = re.findall(r"^  ([a-z]+) ", help_of(), re.MULTILINE)

    pages = {page.stem for page in (ROOT / "docs/commands").glob("*.md")} - {"index"}
    assert set(commands) == pages
    assert len(commands) >= 5


def test_the_readme_names_the_two_commands_first() -> None:
    text = (ROOT / "README.md").read_text()

    assert text.index("make serve") < text.index("make test") < text.index("##")
