"""Write constraints.txt: every direct and transitive dependency, as installed here.

Run it in an environment in which the newest versions are installed and the tests pass.
"""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
HEADER = """\
# Exact versions of everything octavo, its tests, checks and documentation install.
# Written by tools/make_constraints.py; ranges and reasons: pyproject.toml, docs/decisions.
"""


def main() -> None:
    """Walk the requirements of pyproject.toml and write what is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra in project["project"]["optional-dependencies"].values():
        wanted += extra
    pins: dict[str, str] = {}
    missing: list[str] = []
    for text in wanted:
        _pin(Requirement(text), pins, missing)
    if missing:
        raise SystemExit(f"not installed here: {', '.join(sorted(missing))}")
    lines = [f"{name}=={version}" for name, version in sorted(pins.items())]
    (ROOT / "constraints.txt").write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} pins in constraints.txt")


def _pin(requirement: Requirement, pins: dict[str, str], missing: list[str]) -> None:
    name = canonicalize_name(requirement.name)
    extras = {"", *requirement.extras}
    try:
        found = distribution(name)
    except PackageNotFoundError:
        missing.append(name)
        return
    if name in pins and not requirement.extras:
        return
    pins[name] = Version(found.version).public  # without the local part: any build of it
    for text in found.requires or []:
        further = Requirement(text)
        if not further.marker or any(further.marker.evaluate({"extra": e}) for e in extras):
            _pin(further, pins, missing)


if __name__ == "__main__":
    main()
