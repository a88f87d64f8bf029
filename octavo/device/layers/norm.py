"""Root-mean-square norms, with the residual stream."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from octavo.device.layers.build import Build
from octavo.device.ops.rms_norm import add_rms_norm, rms_norm


class RMSNorm(nn.Module):
    """Scale to root mean square 1, then by a weight per dimension."""

    def __init__(self, size: int, eps: float, build: Build) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size, dtype=build.dtype), requires_grad=False)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps)

    def add(self, hidden: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
        """Add ``hidden`` to the residual stream, and return the norm of the sum, and the sum.

        Overwrites one of the two where there is a residual.
        """
        if residual is None:
            return rms_norm(hidden, self.weight, self.eps), hidden
        return add_rms_norm(hidden, residual, self.weight, self.eps)


class PreNorms(nn.Module):
    """The two norms of a pre-norm block: before attention, and before the feed-forward."""

    def __init__(self, size: int, eps: float, build: Build) -> None:
        super().__init__()
        self.attention = RMSNorm(size, eps, build)
        self.mlp = RMSNorm(size, eps, build)
