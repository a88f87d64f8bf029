"""Random weights in the shape of a model: measures speed and memory without a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from zlib import crc32

import torch
from torch import Tensor

from octavo.config.model import ModelConfig
from octavo.device.loading.interface import Shapes, Weight

_SPREAD = 0.02
"""Standard deviation; what most models start training with, so that nothing overflows."""
_LARGE = 1 << 20
"""Elements from which an accelerator draws its own numbers, which differ from a CPU's."""


class Dummy:
    """Fills every weight with numbers that depend on its name alone."""

    def weights(self, config: ModelConfig, shapes: Shapes, /) -> Iterator[Weight]:
        for name, shape in shapes.items():
            yield Weight(name, shape, f"{config.path} (dummy)", partial(_fill, name))


def _fill(name: str, place: Tensor) -> None:
    device = place.device if place.numel() >= _LARGE else torch.device("cpu")
    generator = torch.Generator(device=device).manual_seed(crc32(name.encode()))
    values = torch.empty(place.shape, device=device).normal_(0, _SPREAD, generator=generator)
    place.copy_(values + 1 if "norm" in name else values)


FORMAT = Dummy()
