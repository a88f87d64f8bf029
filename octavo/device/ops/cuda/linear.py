"""Linear layers as one unsplit float32 chain over K per output, for any number of rows.

M rows, N outputs, K inputs. Weights are [N, K], row-major. The bits of a row do not
depend on M: every tile of every configuration adds the same products in the same order, so
the configuration may follow the batch (architecture, section 10a).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Tile:
    """How a product is cut. ``wide`` puts rows on the first side of the dot, else outputs."""

    block_m: int
    block_n: int
    block_k: int
    num_warps: int
    num_stages: int
    is_wide: bool


def linear(
    x: Tensor, weight: Tensor, *, tile: Tile, out: Tensor, residual: Tensor | None
) -> Tensor:
    """Write ``x @ weight.T`` (plus ``residual``, added in float32) to ``out``.

    Shapes:
        x: [M, K]
        weight: [N, K]
        residual, out: [M, N]
    """
    m, k = x.shape
    n = weight.shape[0]
    grid = (triton.cdiv(n, tile.block_n), triton.cdiv(m, tile.block_m))
    _linear[grid](
        x, weight, out, residual if residual is not None else out,
        m, n, k, x.stride(0), out.stride(0),
        BLOCK_M=tile.block_m, BLOCK_N=tile.block_n, BLOCK_K=tile.block_k,
        WIDE=tile.is_wide, RESIDUAL=residual is not None, GATED=False,
        PRECISION="ieee" if x.dtype == torch.float32 else "tf32",
        num_warps=tile.num_warps, num_stages=tile.num_stages,
    )  # fmt: skip
    return out


def gated_linear(x: Tensor, weight: Tensor, *, tile: Tile, out: Tensor) -> Tensor:
    """Write ``silu(x @ gate.T) * (x @ up.T)`` to ``out``; ``weight`` is gate over up.

    Shapes:
        x: [M, K]
        weight: [2 * N, K]
        out: [M, N]
    """
    m, k = x.shape
    n = weight.shape[0] // 2
    grid = (triton.cdiv(n, tile.block_n), triton.cdiv(m, tile.block_m))
    _linear[grid](
        x, weight, out, out,
        m, n, k, x.stride(0), out.stride(0),
        BLOCK_M=tile.block_m, BLOCK_N=tile.block_n, BLOCK_K=tile.block_k,
        WIDE=tile.is_wide, RESIDUAL=False, GATED=True,
        PRECISION="ieee" if x.dtype == torch.float32 else "tf32",
        num_warps=tile.num_warps, num_stages=tile.num_stages,
    )  # fmt: skip
    return out


def linear_reference(x: Tensor, weight: Tensor, residual: Tensor | None) -> Tensor:
    """Float64 oracle of ``linear``, rounded once."""
    product = x.double() @ weight.double().T
    if residual is not None:
        product = product + residual.double()
    return product.to(x.dtype)


def gated_linear_reference(x: Tensor, weight: Tensor) -> Tensor:
    """Float64 oracle of ``gated_linear``; gate and up are rounded in between."""
    gate, up = (x.double() @ weight.double().T).to(x.dtype).double().chunk(2, dim=-1)
    return (torch.nn.functional.silu(gate) * up).to(x.dtype)


@triton.jit(do_not_specialize=["M"])
def _linear(
    x, weight, out, residual,
    M, N, K, stride_x, stride_out,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    WIDE: tl.constexpr, RESIDUAL: tl.constexpr, GATED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    pid_n, pid_m = tl.program_id(0), tl.program_id(1)
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    row_in, col_in = rows < M, cols < N
    if WIDE:
        x_at = x + rows[:, None] * stride_x + inner[None, :]
        w_at = weight + cols[None, :].to(tl.int64) * K + inner[:, None]
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        up = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    else:
        x_at = x + rows[None, :] * stride_x + inner[:, None]
        w_at = weight + cols[:, None].to(tl.int64) * K + inner[None, :]
        acc = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
        up = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    half = N.to(tl.int64) * K
    for k in range(0, K, BLOCK_K):
        k_in = inner + k < K
        if WIDE:
            a = tl.load(x_at, mask=row_in[:, None] & k_in[None, :], other=0.0)
            b = tl.load(w_at, mask=k_in[:, None] & col_in[None, :], other=0.0)
            acc = tl.dot(a, b, acc, input_precision=PRECISION)
            if GATED:
                c = tl.load(w_at + half, mask=k_in[:, None] & col_in[None, :], other=0.0)
                up = tl.dot(a, c, up, input_precision=PRECISION)
        else:
            a = tl.load(x_at, mask=k_in[:, None] & row_in[None, :], other=0.0)
            b = tl.load(w_at, mask=col_in[:, None] & k_in[None, :], other=0.0)
            acc = tl.dot(b, a, acc, input_precision=PRECISION)
            if GATED:
                c = tl.load(w_at + half, mask=col_in[:, None] & k_in[None, :], other=0.0)
                up = tl.dot(c, a, up, input_precision=PRECISION)
        x_at += BLOCK_K
        w_at += BLOCK_K
    if GATED:
        gate = acc.to(out.dtype.element_ty).to(tl.float32)  # rounded as two products would be
        up = up.to(out.dtype.element_ty).to(tl.float32)
        acc = gate / (1.0 + tl.exp(-gate)) * up
    if WIDE:
        at = rows[:, None].to(tl.int64) * stride_out + cols[None, :]
        inside = row_in[:, None] & col_in[None, :]
    else:
        at = rows[None, :].to(tl.int64) * stride_out + cols[:, None]
        inside = col_in[:, None] & row_in[None, :]
    if RESIDUAL:
        acc += tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, acc.to(out.dtype.element_ty), mask=inside)
