"""The private folder in which an API process and its engines meet."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "octavo-"
_NAME = "engine"
_MAX_PATH = 100
"""A unix socket's path holds 107 bytes on Linux, 103 elsewhere."""


class Rendezvous:
    """A folder of mode 0700 that holds the socket. One left by a killed process does no harm."""

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix=_PREFIX)
        if len(os.fsencode(folder)) + 1 + len(_NAME) > _MAX_PATH:
            Path(folder).rmdir()
            folder = tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp")
        self.path = f"{folder}/{_NAME}"
        """Where the socket is bound."""

    def remove(self) -> None:
        """Delete folder and socket; idempotent."""
        remove_rendezvous(self.path)


def remove_rendezvous(path: str) -> None:
    """Delete the folder of ``path``, from whichever process lives longest; idempotent."""
    folder = Path(path).parent
    if folder.name.startswith(_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)
