"""Checkpoint files mapped into memory, so that only what is copied is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from octavo.kit.errors import CheckpointError


class MappedFile:
    """One file as bytes; pages are read when they are touched."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        # Copy on write: torch warns about memory it cannot write to; nothing here writes.
        self._bytes = np.memmap(path, dtype=np.uint8, mode="c")

    def bytes_at(self, offset: int, nbytes: int) -> Tensor:
        """Return [nbytes] uint8 that share the mapping.

        Raises:
            CheckpointError: the file ends before that.
        """
        if offset < 0 or nbytes < 0 or offset + nbytes > len(self._bytes):
            raise CheckpointError(
                f"{self.path}: has {len(self._bytes)} bytes, its header names data up to "
                f"{offset + nbytes}. The file is cut off; fetch it again."
            )
        return torch.from_numpy(self._bytes[offset : offset + nbytes])
