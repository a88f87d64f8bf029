"""Print files and lines per package, largest first."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Count every Python file of the repository's folders."""
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for top in ("octavo", "tests", "tools", "benchmarks", "examples"):
        for path in (ROOT / top).rglob("*.py"):
            package = "/".join(path.relative_to(ROOT).parts[:-1][:3])
            files[package] += 1
            lines[package] += len(path.read_text(encoding="utf-8").splitlines())
    for package, count in lines.most_common():
        print(f"{count:>7} lines {files[package]:>4} files  {package}")
    print(f"{lines.total():>7} lines {files.total():>4} files  in all")


if __name__ == "__main__":
    main()
