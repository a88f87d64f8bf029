"""What a user meets is documented: flags, environment, errors, metrics, extension points."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

from octavo.config.cli import field_docs
from octavo.kit import errors
from octavo.kit.env import Environment
from tests.architecture.conftest import ROOT, Checkout
from tools.make_reference import argument_classes, declared_metrics, extensions, pages

REFERENCE = ROOT / "docs/reference"
_VARIABLE = re.compile(r"OCTAVO_[A-Z_]+")
_READS = {"environ", "getenv", "environb"}
_MAY_READ = {
    "octavo/kit/env.py": "the table of variables",
}


@pytest.mark.parametrize("name", pages())
def test_a_reference_page_says_what_the_code_says(name: str) -> None:
    assert (REFERENCE / name).read_text() == pages()[name], "run: make reference"


@pytest.mark.parametrize("cls", argument_classes(), ids=lambda cls: cls.__name__)
def test_every_flag_has_a_string_below_its_field(cls: type) -> None:
    documented = field_docs(cls)

    assert [field.name for field in fields(cls) if not documented.get(field.name)] == []


def test_every_flag_is_in_the_reference() -> None:
    page = (REFERENCE / "flags.md").read_text()
    names = [field.name for cls in argument_classes() for field in fields(cls)]

    assert len(names) > 25
    assert [name for name in names if f"`--{name.replace('_', '-')}`" not in page] == []


def test_every_environment_variable_is_documented() -> None:
    page = (REFERENCE / "environment.md").read_text()
    named = {found for path in python_files(ROOT) for found in _VARIABLE.findall(path.read_text())}

    assert len(named) >= 2
    assert {name for name in named if f"`{name}`" not in page} == set()
    assert set(field_docs(Environment)) == {field.name for field in fields(Environment)}


def test_the_environment_is_read_in_one_place(checkout: Checkout) -> None:
    assert readers_of_the_environment(checkout.root) == []


def test_a_planted_read_of_the_environment_is_seen(copy: Checkout) -> None:
    copy.plant("octavo/engine/kv/planted.py", "import os\n\nX = os.environ.get('X')\n")

    assert "octavo/engine/kv/planted.py:3" in readers_of_the_environment(copy.root)


def test_every_error_has_a_docstring_and_is_in_the_reference() -> None:
    page = (REFERENCE / "errors.md").read_text()
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]

    assert [kind.__name__ for kind in kinds if not kind.__doc__] == []
    assert [kind.__name__ for kind in kinds if f"`{kind.__name__}`" not in page] == []


def test_every_extension_point_is_in_the_architecture_and_in_the_reference() -> None:
    architecture = (ROOT / "docs/architecture.md").read_text()
    page = (REFERENCE / "extensions.md").read_text()
    rows = [line for line in architecture.splitlines() if line.startswith("| ")]

    for group, package, attribute in extensions():
        folder = package.removeprefix("octavo.").replace(".", "/")
        assert any(
            f"`{group}`" in row and f"`{folder}/<" in row and f"`{attribute}" in row for row in rows
        ), f"no row of section 7 of the architecture says {group}, {folder}, {attribute}"
        assert f"`{group}`" in page


def test_an_undocumented_extension_point_would_be_found(copy: Checkout) -> None:
    copy.plant(
        "octavo/engine/kv/planted.py",
        "from octavo.kit.extension import ExtensionPoint\n\n"
        'X = ExtensionPoint("octavo.planted", "octavo.engine.kv", attribute="X")\n',
    )

    assert ("octavo.planted", "octavo.engine.kv", "X") in extensions(copy.root)


def test_every_metric_has_a_sentence_and_is_in_the_reference() -> None:
    page = (REFERENCE / "metrics.md").read_text()

    assert len(declared_metrics()) > 10
    for name, _, text in declared_metrics():
        assert len(text.split()) >= 2, name
        assert f"`{name}`" in page


def python_files(root: Path) -> list[Path]:
    """All files of the package."""
    return sorted((root / "octavo").rglob("*.py"))


def readers_of_the_environment(root: Path) -> list[str]:
    """Places that read ``os.environ``, apart from those that may."""
    places: list[str] = []
    for path in python_files(root):
        if path.relative_to(root).as_posix() in _MAY_READ:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in _READS:
                    places.append(f"{path.relative_to(root)}:{node.lineno}")
    return places


def test_every_route_is_on_the_page_of_the_http_interface() -> None:
    page = (ROOT / "docs/http.md").read_text()
    routes = re.compile(r'@router\.(?:get|post|delete)\(\s*"([^"{]+)')
    texts = [path.read_text() for path in (ROOT / "octavo/api/http/routes").glob("*.py")]
    named = [path.rstrip("/") for text in texts for path in routes.findall(text)]

    assert len(named) >= 10
    assert [path for path in named if path not in page] == []
