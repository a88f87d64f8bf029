"""Root-mean-square norms, with the residual stream."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from octavo.device.layers.build import Build
from octavo.device.ops.rms_norm import rms_norm


class RMSNorm(nn.Module):
    """Scale to root mean square 1, then by a weight per dimension."""

    def __init__(self, size: int, eps: float, build: Build) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size, dtype=build.dtype), requires_grad=False)
        self._eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self._eps)

    def add(self, hidden: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
        """Add ``hidden`` to the residual stream, and return the norm of the sum, and the sum.

        Overwrites ``hidden`` where there is a residual.
        """
        total = hidden if residual is None else hidden.add_(residual)
        return rms_norm(total, self.weight, self._eps), total


class PreNorms(nn.Module):
    """The two norms of a pre-norm block: before attention, and before the feed-forward."""

    def __init__(self, size: int, eps: float, build: Build) -> None:
        super().__init__()
        self.attention = RMSNorm(size, eps, build)
        self.mlp = RMSNorm(size, eps, build)
