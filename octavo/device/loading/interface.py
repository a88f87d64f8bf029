"""What a weight format gives the loader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from octavo.config.model import ModelConfig
from octavo.kit.extension import ExtensionPoint

FORMATS = ExtensionPoint(
    group="octavo.weight_formats",
    package="octavo.device.loading.formats",
    attribute="FORMAT",
)


Shapes = dict[str, tuple[int, ...]]
"""Shape of each weight, by its Hugging Face name."""


@dataclass(frozen=True, slots=True)
class Weight:
    """One tensor of a checkpoint, not read yet."""

    name: str
    """As in Hugging Face's implementation of the model."""
    shape: tuple[int, ...]
    source: str
    """File, for messages."""
    read_into: Callable[[Tensor], None]
    """Fill a tensor of that shape, converting to its dtype."""


class WeightFormat(Protocol):
    """A way to keep weights on disk."""

    def weights(self, config: ModelConfig, shapes: Shapes, /) -> Iterator[Weight]:
        """Yield every weight of the checkpoint at ``config.path``.

        ``shapes`` are the weights that the model has, for a format that has none of its own.

        Raises:
            CheckpointError: a file is cut off, foreign, or of a type that is not known.
        """
