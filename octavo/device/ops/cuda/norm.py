"""RMSNorm of rows, one program a row; the order of the sum depends on the width alone."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

_NUM_WARPS = 4
"""Part of the numerics: the reduction tree follows it."""


def rms_norm(
    x: Tensor, weight: Tensor, eps: float, *, out: Tensor, residual: Tensor | None = None
) -> Tensor:
    """Write ``y / rms(y) * weight`` to ``out``; ``y`` is ``x``, plus ``residual`` if there is one.

    The sum is rounded before it is normed, and replaces ``residual``.

    Shapes:
        x, out, residual: [M, K]
        weight: [K]
    """
    m, k = x.shape
    _rms_norm[(m,)](
        x, weight, out, x if residual is None else residual,
        k, x.stride(0), out.stride(0), eps,
        BLOCK=triton.next_power_of_2(k), ADD=residual is not None,
        num_warps=_NUM_WARPS,
    )  # fmt: skip
    return out


def rms_norm_reference(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Float64 oracle, rounded once."""
    wide = x.double()
    scale = (wide.pow(2).mean(-1, keepdim=True) + eps).rsqrt()
    return (wide * scale * weight.double()).to(x.dtype)


@triton.jit
def _rms_norm(
    x,
    weight,
    out,
    residual,
    K,
    stride_x,
    stride_out,
    eps,
    BLOCK: tl.constexpr,
    ADD: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < K
    value = tl.load(x + row * stride_x + cols, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        value += tl.load(residual + row * K + cols, mask=inside, other=0.0).to(tl.float32)
        total = value.to(out.dtype.element_ty)
        tl.store(residual + row * K + cols, total, mask=inside)
        value = total.to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value) / K + eps)
    gain = tl.load(weight + cols, mask=inside, other=0.0).to(tl.float32)
    normed = (value * scale * gain).to(out.dtype.element_ty)
    tl.store(out + row * stride_out + cols, normed, mask=inside)
