"""Linear layers: plain, split over outputs or inputs, and several merged into one product."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from octavo.device.layers.build import Build
from octavo.device.ops.gate import Gate


class Linear(nn.Module):
    """One matrix, or several that read the same input, stacked over their outputs.

    ``shard_sizes`` are the rows of each stacked matrix; a checkpoint fills them one by one.
    """

    def __init__(
        self, in_features: int, shard_sizes: tuple[int, ...], build: Build, *, bias: bool
    ) -> None:
        super().__init__()
        self.shard_sizes = shard_sizes
        self._method = build.method
        out_features = sum(shard_sizes)
        build.method.create_weights(
            self, in_features=in_features, out_features=out_features, dtype=build.dtype
        )
        self.bias: nn.Parameter | None = None
        if bias:
            self.bias = nn.Parameter(
                torch.empty(out_features, dtype=build.dtype), requires_grad=False
            )

    def process_after_load(self) -> None:
        """Let the method of this layer arrange its loaded weights."""
        self._method.process_after_load(self)

    def forward(self, x: Tensor) -> Tensor:
        return self._method.apply(self, x, self.bias)

    def gated(self, x: Tensor, gate: Gate) -> Tensor:
        """Return ``gate`` of the product, whose halves are gate and value."""
        return self._method.apply_gated(self, x, self.bias, gate)


def column_parallel(
    in_features: int, shard_sizes: tuple[int, ...], build: Build, *, bias: bool
) -> Linear:
    """Return this rank's part of a product that is split over its outputs."""
    sizes = tuple(build.tensor.share(size) for size in shard_sizes)
    return Linear(in_features, sizes, build, bias=bias)


def row_parallel(in_features: int, out_features: int, build: Build, *, bias: bool) -> Linear:
    """Return this rank's part of a product that is split over its inputs."""
    return Linear(build.tensor.share(in_features), (out_features,), build, bias=bias)
