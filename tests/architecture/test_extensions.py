"""A package of extensions holds extensions, and `base`, and nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.architecture.conftest import ROOT, Checkout
from tools.make_reference import extensions


def strangers(root: Path, package: str, attribute: str) -> list[str]:
    """Modules of ``package`` that do not assign ``attribute``, apart from ``base``."""
    folder = root / package.replace(".", "/")
    modules = [path for path in folder.glob("*.py") if path.stem not in ("__init__", "base")]
    return sorted(path.stem for path in modules if attribute not in assigned(path))


def assigned(path: Path) -> set[str]:
    """Names that a module assigns at its top level."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names.add(name)
    return names


@pytest.mark.parametrize(("group", "package", "attribute"), extensions())
def test_every_module_of_the_package_is_an_extension(
    group: str, package: str, attribute: str
) -> None:
    assert strangers(ROOT, package, attribute) == [], f"load() would offer them as {group}"


def test_a_planted_stranger_is_seen(copy: Checkout) -> None:
    copy.plant("octavo/engine/kv/policies/planted.py", "X = 1\n")

    assert strangers(copy.root, "octavo.engine.kv.policies", "POLICY") == ["planted"]


def test_one_group_is_always_the_same_package_and_attribute() -> None:
    groups = [group for group, _, _ in extensions()]

    assert len(groups) == len(set(groups))
