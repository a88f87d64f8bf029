"""One name, one extension: built in or plugged in, imported when asked for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from octavo.kit.extension import ExtensionPoint

POINT = ExtensionPoint("octavo_test.things", "things_package", "THING")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two built-in things and an interface, importable in this test only."""
    folder = tmp_path / "things_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "base.py").write_text("raise RuntimeError('the interface is no extension')")
    (folder / "plain.py").write_text("THING = 'the plain one'")
    (folder / "broken.py").write_text("import a_library_that_is_not_there")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("things_package")]:
        del sys.modules[name]


def plug_in(folder: Path, name: str, target: str) -> None:
    """Make ``folder`` look like an installed distribution with one entry point."""
    info = folder / f"plugin_{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: plugin-{name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[octavo_test.things]\n{name} = {target}\n")


def test_built_in_modules_are_names_but_the_interface_is_not(package: Path) -> None:
    assert POINT.names() == ["broken", "plain"]


def test_a_name_loads_the_attribute_of_its_module(package: Path) -> None:
    assert POINT.load("plain") == "the plain one"


def test_nothing_is_imported_until_its_name_is_asked_for(package: Path) -> None:
    POINT.names()
    POINT.load("plain")

    assert "things_package.plain" in sys.modules
    assert "things_package.broken" not in sys.modules


def test_a_distribution_adds_a_name(package: Path) -> None:
    (package / "their_module.py").write_text("MINE = 'the plugged one'")
    plug_in(package, "plugged", "their_module:MINE")

    assert POINT.names() == ["broken", "plain", "plugged"]
    assert POINT.load("plugged") == "the plugged one"


def test_a_distribution_cannot_take_the_name_of_a_built_in(package: Path) -> None:
    plug_in(package, "plain", "their_module:MINE")

    with pytest.raises(ValueError, match=r"\['plain'\] are built in; rename the plug-in"):
        POINT.load("plain")


def test_an_unknown_name_gets_the_nearest(package: Path) -> None:
    with pytest.raises(LookupError, match=r"has no 'plain1'. Did you mean one of: \['plain'\]"):
        POINT.load("plain1")


def test_a_name_like_none_gets_all(package: Path) -> None:
    with pytest.raises(LookupError, match=r"\['broken', 'plain'\]"):
        POINT.load("zzz")


def test_the_interface_cannot_be_loaded(package: Path) -> None:
    with pytest.raises(LookupError):
        POINT.load("base")


def test_a_missing_library_shows_itself(package: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match="a_library_that_is_not_there"):
        POINT.load("broken")
