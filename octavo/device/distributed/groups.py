"""Parallel groups as values: a layer receives the group it reduces over."""

from __future__ import annotations

from dataclasses import dataclass

from octavo.kit.errors import Unsupported


@dataclass(frozen=True, slots=True)
class Group:
    """The ranks that hold one layer between them.

    Raises:
        Unsupported: more than one rank; there are no collectives yet.
    """

    size: int = 1
    rank: int = 0

    def __post_init__(self) -> None:
        if self.size != 1:
            raise Unsupported(
                f"a group of {self.size} ranks: layers run on one rank only. "
                "Use --tensor-parallel-size 1."
            )

    def share(self, size: int) -> int:
        """Return one rank's part of a dimension that the group splits."""
        return size // self.size
