"""Compare every file with its ceiling in the table of docs/architecture.md, section 2.

Usage: check_sizes.py [ROOT]. Prints what is too large or in no table, and exits 1 if anything is.
Limits of a function (statements, branches, arguments) are ruff's.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_LINES = 300
MAX_PUBLIC_METHODS = 20
OTHER_FOLDERS = ("tools", "benchmarks", "examples")

_PACKAGE = re.compile(r"^(?P<path>[\w/]+/) +\[(?P<process>[^\]]+)\]")
_ENTRY = re.compile(r"^    (?P<path>[\w<>/]+(?:\.py|/)) +(?:(?P<lines>\d+)(?P<each> each)?  )?\S")


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """One thing that is larger than it may be, or stands nowhere."""

    place: str
    what: str
    found: str
    allowed: str


@dataclass(slots=True)
class Ceilings:
    """Ceilings of the package: by file, and by folder for whatever else is in it."""

    files: dict[str, int] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)

    def find(self, path: str) -> int | None:
        """Return the ceiling of ``path`` (relative to the package), or None outside the table."""
        if path in self.files:
            return self.files[path]
        return self.folders.get(path.rpartition("/")[0] + "/")


def read_ceilings(document: str) -> Ceilings:
    """Read the table: a line per package, below it a line per file or folder of extensions.

    Raises:
        ValueError: the document has no such table.
    """
    ceilings = Ceilings()
    package = ""
    for line in document.splitlines():
        if line.startswith("```"):
            package = ""
        elif found := _PACKAGE.match(line):
            package = found["path"]
        elif package and (found := _ENTRY.match(line)):
            _add(ceilings, package, found)
    if not ceilings.files:
        raise ValueError("docs/architecture.md has no table of files and ceilings in section 2")
    return ceilings


def check(root: Path) -> list[Violation]:
    """Return the violations below ``root``, a checkout of the repository."""
    ceilings = read_ceilings((root / "docs/architecture.md").read_text(encoding="utf-8"))
    violations: list[Violation] = []
    package = root / "octavo"
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package).as_posix()
        ceiling = ceilings.find(place)
        if ceiling is None and not path.name.startswith("__"):
            violations.append(Violation(f"octavo/{place}", "place", "in no table", "a line in it"))
        violations += _check_file(path, f"octavo/{place}", ceiling or DEFAULT_LINES)
    for folder in OTHER_FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            violations += _check_file(path, path.relative_to(root).as_posix(), DEFAULT_LINES)
    return violations


def main(arguments: list[str]) -> int:
    """Print the violations of the checkout named by ``arguments``, by default this one."""
    root = Path(arguments[0]) if arguments else Path(__file__).parents[1]
    violations = check(root)
    for violation in violations:
        print(
            f"{violation.place:<48} {violation.what:<28} {violation.found:>12}"
            f"  ceiling {violation.allowed}"
        )
    if violations:
        print(f"{len(violations)} over their ceiling: split the file, or change its line in")
        print("docs/architecture.md, section 2, and say why.")
    return 1 if violations else 0


def _add(ceilings: Ceilings, package: str, found: re.Match[str]) -> None:
    path = package + found["path"]
    lines = int(found["lines"] or DEFAULT_LINES)
    if "<" in path:
        ceilings.folders[path.rpartition("/")[0] + "/"] = lines
    elif path.endswith("/"):
        ceilings.folders[path] = lines
    else:
        ceilings.files[path] = lines


def _check_file(path: Path, place: str, ceiling: int) -> list[Violation]:
    text = path.read_text(encoding="utf-8")
    violations: list[Violation] = []
    if (num_lines := len(text.splitlines())) > ceiling:
        violations.append(Violation(place, "lines", str(num_lines), str(ceiling)))
    for node in ast.walk(ast.parse(text, filename=place)):
        if isinstance(node, ast.ClassDef) and (count := _num_public(node)) > MAX_PUBLIC_METHODS:
            what = f"methods of {node.name}"
            violations.append(Violation(place, what, str(count), str(MAX_PUBLIC_METHODS)))
    return violations


def _num_public(node: ast.ClassDef) -> int:
    functions = (
        child for child in node.body if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return sum(not function.name.startswith("_") for function in functions)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
