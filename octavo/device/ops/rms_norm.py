"""Root-mean-square normalisation over the last dimension."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from octavo.device.ops.by_device import cuda_kernels


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Scale each row to root mean square 1, then by ``weight``."""
    if x.device.type == "cuda" and x.dim() == 2:
        normed: Tensor = cuda_kernels("norm").rms_norm(x, weight, eps, out=torch.empty_like(x))
        return normed
    return functional.rms_norm(x, weight.shape, weight, eps)


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return the norm of ``x + residual``, and the sum; overwrites one of the two.

    Shapes:
        x, residual: [T, K]
    """
    if x.device.type == "cuda":
        out = torch.empty_like(x)
        return cuda_kernels("norm").rms_norm(x, weight, eps, out=out, residual=residual), residual
    total = x.add_(residual)
    return rms_norm(total, weight, eps), total


def reference(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Say the same in float32, term by term."""
    wide = x.float()
    scale = (wide.square().mean(-1, keepdim=True) + eps).rsqrt()
    return (wide * scale * weight.float()).to(x.dtype)
