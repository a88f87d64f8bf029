"""Where each checkpoint weight goes, and whether all of them arrived."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from octavo.device.layers.linear import Linear
from octavo.device.layers.weight_map import WeightMap
from octavo.device.loading.interface import Weight
from octavo.kit.errors import CheckpointError

_NEEDLESS = re.compile(r"\.rotary_emb\.inv_freq$|\.masked_bias$")
"""Weights that checkpoints carry and models compute for themselves."""

_MOST_NAMES = 5
"""Names that a message lists."""


@dataclass(slots=True)
class WeightTargets:
    """The places that a checkpoint must fill, each exactly once.

    Invariant: a name is in ``_open`` until its weight was stored.
    """

    tied: frozenset[str] = frozenset()
    """Checkpoint names that another weight stands for."""
    _places: dict[str, Tensor] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, model: nn.Module, weights: WeightMap, *, tied: frozenset[str]) -> WeightTargets:
        """Find the place of every weight of ``model``; stacked ones get a slice each."""
        places: dict[str, Tensor] = {}
        for layer_name, layer in model.named_modules():
            for leaf, parameter in layer.named_parameters(recurse=False):
                names = weights.checkpoint_names(f"{layer_name}.{leaf}")
                places.update(zip(names, _slices(layer, parameter), strict=True))
        for name in tied:
            places.pop(name, None)
        return cls(tied=tied, _places=places, _open=set(places))

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of everything a checkpoint must hold."""
        return {name: tuple(place.shape) for name, place in self._places.items()}

    @property
    def total_bytes(self) -> int:
        """Size of all places [bytes]."""
        return sum(place.nbytes for place in self._places.values())

    def store(self, weight: Weight) -> int:
        """Copy ``weight`` into its place and return the bytes that filled.

        Raises:
            CheckpointError: the model has no such weight, or one of another shape.
        """
        place = self._places.get(weight.name)
        if place is None:
            if weight.name in self.tied or _NEEDLESS.search(weight.name):
                return 0
            raise CheckpointError(
                f"{weight.source}: weight {weight.name!r} of shape {list(weight.shape)} has no "
                "place in the model. The weights and the configuration are not of one model."
            )
        if tuple(weight.shape) != tuple(place.shape):
            raise CheckpointError(
                f"{weight.source}: weight {weight.name!r} has shape {list(weight.shape)}, the "
                f"configuration asks for {list(place.shape)}. The weights and the configuration "
                "are not of one model."
            )
        weight.read_into(place)
        self._open.discard(weight.name)
        return place.nbytes

    def check_complete(self, source: str) -> None:
        """Refuse a model with places that nothing filled.

        Raises:
            CheckpointError: weights are missing; the message names them.
        """
        if not self._open:
            return
        missing = sorted(self._open)
        named = ", ".join(missing[:_MOST_NAMES])
        more = f" and {len(missing) - _MOST_NAMES} more" if len(missing) > _MOST_NAMES else ""
        raise CheckpointError(
            f"{source}: {len(missing)} weights are missing: {named}{more}. "
            "The download is incomplete, or the configuration is that of another model."
        )


def _slices(layer: nn.Module, parameter: Tensor) -> Iterator[Tensor]:
    """Cut a parameter into the parts that the checkpoint holds separately."""
    if not isinstance(layer, Linear):
        yield parameter.data
        return
    yield from torch.split(parameter.data, list(layer.shard_sizes))
