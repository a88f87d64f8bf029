"""RMSNorm of rows, one program a row; the order of the sum depends on the width alone."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
from torch import Tensor

_NUM_WARPS = 4  # part of the numerics: the reduction tree follows it


PDL = False


def rms_norm(x: Tensor, weight: Tensor, eps: float, *, out: Tensor) -> Tensor:
    """Write ``x / rms(x) * weight`` to ``out``.

    Shapes:
        x, out: [M, K]
        weight: [K]
    """
    m, k = x.shape
    _rms_norm[(m,)](
        x, weight, out, k, x.stride(0), out.stride(0), eps,
        BLOCK=triton.next_power_of_2(k), PDL_=PDL, num_warps=_NUM_WARPS, **({"launch_pdl": True} if PDL else {}),
    )  # fmt: skip
    return out


def rms_norm_reference(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Float64 oracle, rounded once."""
    wide = x.double()
    scale = (wide.pow(2).mean(-1, keepdim=True) + eps).rsqrt()
    return (wide * scale * weight.double()).to(x.dtype)


@triton.jit
def _rms_norm(x, weight, out, K, stride_x, stride_out, eps, BLOCK: tl.constexpr, PDL_: tl.constexpr):
    if PDL_:
        gdc_launch_dependents()
        gdc_wait()
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < K
    value = tl.load(x + row * stride_x + cols, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value) / K + eps)
    gain = tl.load(weight + cols, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * stride_out + cols, (value * scale * gain).to(out.dtype.element_ty), mask=inside)
