"""Every environment variable that octavo reads, typed, in one table.

They are for deployment and debugging, never for behaviour. What libraries read for themselves
(such as ``HF_TOKEN`` and ``HF_ENDPOINT`` of huggingface_hub) is not here.
"""

from __future__ import annotations

import os
import sysconfig
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Environment:
    """What the environment says, read once at start."""

    cache_dir: Path | None
    """``OCTAVO_CACHE``: folder for models fetched from the hub; the hub's own cache where unset."""

    api_key: str | None
    """``OCTAVO_API_KEY``: bearer key, where a command line would show it to other users."""

    visible_devices: str | None = None
    """``CUDA_VISIBLE_DEVICES``: the accelerators that the driver shows to this process."""


def read_environment() -> Environment:
    """Read the table above from ``os.environ``."""
    cache = os.environ.get("OCTAVO_CACHE")
    return Environment(
        cache_dir=Path(cache).expanduser() if cache else None,
        api_key=os.environ.get("OCTAVO_API_KEY") or None,
        visible_devices=os.environ.get("CUDA_VISIBLE_DEVICES"),
    )


def child_environment(root: Path) -> dict[str, str]:
    """Our own environment, in which a Python child finds packages of ``root``.

    Children run with ``-P``, which keeps the working directory off their path (a file such as
    ``queue.py`` there would replace a module of Python), so a package that is not installed must
    be named to them.
    """
    if str(root) in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        return dict(os.environ)
    path = os.environ.get("PYTHONPATH")
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(root), *([path] if path else [])])}


def let_threads_sleep() -> None:
    """Have OpenMP threads sleep after some 0.1 ms of waiting, where they would spin for 10 ms.

    libgomp reads this when it is loaded, so call it before torch is imported. Spinning threads
    take the core from those they wait for: with other work on the machine a decode step of 16
    requests took several seconds, and takes 0.4 s with this. What the user has set stays.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")
