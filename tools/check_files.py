"""Rules that no linter knows: comments, ends of files, sizes of files.

Usage: check_files.py [FILE ...]; without names, every file that git tracks. A TODO names an issue,
``TODO(#123)``; the other marks of unfinished work are refused. A text file ends with one newline
and has no blank at the end of a line. No file is larger than half a megabyte.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

MAX_BYTES = 512 * 1024

_MARKS = re.compile(r"\b(?:FIXME|XXX|HACK)\b")
_BARE_TODO = re.compile(r"\bTODO\b(?!\(#\d+\): \S)")
_COMMENTS = {
    ".py": "#",
    ".toml": "#",
    ".yaml": "#",
    ".yml": "#",
    ".sh": "#",
    ".cpp": "//",
    ".h": "//",
}


def main(arguments: list[str]) -> int:
    """Print what breaks a rule; 1 if anything does."""
    names = arguments or _tracked()
    violations = [said for name in names for said in check(Path(name))]
    for said in violations:
        print(said)
    return 1 if violations else 0


def check(path: Path) -> list[str]:
    """Return the violations in one file, each with its place."""
    if not path.is_file() or path.is_symlink():
        return []
    content = path.read_bytes()
    violations: list[str] = []
    if len(content) > MAX_BYTES:
        violations.append(f"{path}: {len(content)} bytes; at most {MAX_BYTES} may be committed")
    if b"\0" in content or not content:
        return violations
    text = content.decode("utf-8", errors="replace")
    if not text.endswith("\n") or text.endswith("\n\n"):
        violations.append(f"{path}: must end with one newline")
    for number, line in enumerate(text.splitlines(), start=1):
        if line != line.rstrip():
            violations.append(f"{path}:{number}: blanks at the end of the line")
    for number, comment in _comments(path, text):
        if mark := _MARKS.search(comment):
            violations.append(f"{path}:{number}: {mark[0]} is refused: finish it, or file an issue")
        if _BARE_TODO.search(comment):
            violations.append(f"{path}:{number}: a TODO names its issue: TODO(#123): what is left")
    return violations


def _comments(path: Path, text: str) -> Iterator[tuple[int, str]]:
    if path.suffix == ".py":
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        yield from ((t.start[0], t.string) for t in tokens if t.type == tokenize.COMMENT)
    elif mark := _COMMENTS.get(path.suffix):
        for number, line in enumerate(text.splitlines(), start=1):
            if mark in line:
                yield number, line.partition(mark)[2]


def _tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
