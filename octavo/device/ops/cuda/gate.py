"""``silu(gate) * up`` of a product that holds both halves."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024


def silu_and_mul(gate_up: Tensor) -> Tensor:
    """Return ``silu(gate) * up`` of [T, 2 * I], as ``gated_linear`` computes it."""
    rows, width = gate_up.shape[0], gate_up.shape[1] // 2
    out = torch.empty(rows, width, dtype=gate_up.dtype, device=gate_up.device)
    _silu_and_mul[(rows, triton.cdiv(width, _BLOCK))](
        gate_up,
        out,
        width,
        gate_up.stride(0),
        BLOCK=_BLOCK,
        num_warps=4,
    )
    return out


@triton.jit
def _silu_and_mul(gate_up, out, width, stride, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = cols < width
    gate = tl.load(gate_up + row * stride + cols, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * stride + width + cols, mask=inside, other=0.0).to(tl.float32)
    value = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(out + row * width + cols, value.to(out.dtype.element_ty), mask=inside)
