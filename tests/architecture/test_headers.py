"""Every package says which process and which call it serves, as the table does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.architecture.conftest import Checkout

_ROW = re.compile(
    r"^(?P<path>[\w/]+)/ +\[(?P<process>\w+)\](?: step: (?P<step>.+?))?  ", re.MULTILINE
)
_HEADER = re.compile(r"\n\nProcess: (?P<process>\w+)\nStep: (?P<step>[\w ]+)\n?$")
_PROCESSES = {"api": "api", "engine": "engine", "device": "device"}


def find_violations(root: Path) -> list[str]:
    """Name each package without the two lines, or with lines that say something else."""
    table = {
        row["path"]: (row["process"].lower(), row["step"] or "none")
        for row in _ROW.finditer((root / "docs/architecture.md").read_text())
    }
    assert len(table) > 20
    package = root / "octavo"
    violations: list[str] = []
    for folder in sorted({path.parent for path in package.rglob("*.py")} - {package}):
        name = folder.relative_to(package).as_posix()
        init = folder / "__init__.py"
        docstring = init.exists() and ast.get_docstring(ast.parse(init.read_text()), clean=True)
        header = docstring and _HEADER.search(docstring)
        if not header:
            violations.append(f"octavo/{name}/__init__.py: no lines 'Process:' and 'Step:'")
            continue
        said = (header["process"], header["step"])
        process = table.get(name.split("/")[0], ("shared", ""))[0]
        wanted = table.get(name, (_PROCESSES.get(name.split("/")[0], process), said[1]))
        if said != wanted:
            violations.append(f"octavo/{name}/__init__.py: says {said}, the table {wanted}")
    return violations


def test_every_package_says_its_process_and_step(checkout: Checkout) -> None:
    assert find_violations(checkout.root) == []


def test_a_package_without_header_fails(copy: Checkout) -> None:
    copy.plant("octavo/engine/planted/thing.py", "X = 1\n")

    assert "octavo/engine/planted/__init__.py: no lines" in "\n".join(find_violations(copy.root))


def test_a_folder_without_init_fails(copy: Checkout) -> None:
    copy.plant("octavo/engine/planted/thing.py", "X = 1\n")
    (copy.root / "octavo/engine/planted/__init__.py").unlink()

    assert "octavo/engine/planted/__init__.py: no lines" in "\n".join(find_violations(copy.root))


def test_a_package_that_names_another_process_fails(copy: Checkout) -> None:
    init = copy.root / "octavo/engine/schedule/__init__.py"
    init.write_text(init.read_text().replace("Process: engine", "Process: device"))

    violation = "octavo/engine/schedule/__init__.py: says ('device', '1 schedule')"
    assert violation in "\n".join(find_violations(copy.root))


def test_a_package_that_names_another_call_fails(copy: Checkout) -> None:
    init = copy.root / "octavo/engine/update/__init__.py"
    init.write_text(init.read_text().replace("Step: 4 update", "Step: 1 schedule"))

    violation = "octavo/engine/update/__init__.py: says ('engine', '1 schedule')"
    assert violation in "\n".join(find_violations(copy.root))
