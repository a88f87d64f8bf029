"""Linear layers as one unsplit float32 chain over K per output, for any number of rows.

M rows, N outputs, K inputs. Weights are [N, K], row-major, bf16 or fp16. The bits of a row do not
depend on M: every tile of every configuration adds the same products in the same order, so
the configuration may follow the batch (architecture, section 10a).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
from torch import Tensor


PDL = False


@dataclass(frozen=True, slots=True)
class Tile:
    """How a product is cut. ``wide`` puts rows on the first side of the dot, else outputs."""

    block_m: int
    block_n: int
    block_k: int
    num_warps: int
    num_stages: int
    is_wide: bool


def linear(x: Tensor, weight: Tensor, *, tile: Tile, out: Tensor, residual: Tensor | None) -> Tensor:
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
        PDL_=PDL, num_warps=tile.num_warps, num_stages=tile.num_stages, **({"launch_pdl": True} if PDL else {}),
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
        PDL_=PDL, num_warps=tile.num_warps, num_stages=tile.num_stages, **({"launch_pdl": True} if PDL else {}),
    )  # fmt: skip
    return out


def linear_reference(x: Tensor, weight: Tensor, residual: Tensor | None) -> Tensor:
    """Float64 oracle of ``linear``, rounded once."""
    product = x.double() @ weight.double().T
    if residual is not None:
        product = product + residual.double()
    return product.to(x.dtype)


def gated_linear_reference(x: Tensor, weight: Tensor) -> Tensor:
    """Float64 oracle of ``gated_linear``; gate and up are not rounded in between."""
    gate, up = (x.double() @ weight.double().T).chunk(2, dim=-1)
    return (torch.nn.functional.silu(gate) * up).to(x.dtype)


@triton.jit
def _prefetch(at):
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [at], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit
def _linear(
    x, weight, out, residual,
    M, N, K, stride_x, stride_out,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    WIDE: tl.constexpr, RESIDUAL: tl.constexpr, GATED: tl.constexpr, PDL_: tl.constexpr,
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
    if PDL_:
        gdc_launch_dependents()
        line = tl.arange(0, 1024) * 64
        for i in range(BLOCK_N // 4):
            wide_at = (pid_n * BLOCK_N + i * 4).to(tl.int64) * K + line  # four rows at most
            ok = (line < 4 * K) & (wide_at < half)
            _prefetch(weight + tl.where(ok, wide_at, 0))
            if GATED:
                _prefetch(weight + half + tl.where(ok, wide_at, 0))
        gdc_wait()
    for k in range(0, K, BLOCK_K):
        k_in = inner + k < K
        if WIDE:
            a = tl.load(x_at, mask=row_in[:, None] & k_in[None, :], other=0.0)
            b = tl.load(w_at, mask=k_in[:, None] & col_in[None, :], other=0.0)
            acc = tl.dot(a, b, acc)
            if GATED:
                c = tl.load(w_at + half, mask=k_in[:, None] & col_in[None, :], other=0.0)
                up = tl.dot(a, c, up)
        else:
            a = tl.load(x_at, mask=k_in[:, None] & row_in[None, :], other=0.0)
            b = tl.load(w_at, mask=col_in[:, None] & k_in[None, :], other=0.0)
            acc = tl.dot(b, a, acc)
            if GATED:
                c = tl.load(w_at + half, mask=col_in[:, None] & k_in[None, :], other=0.0)
                up = tl.dot(c, a, up)
        x_at += BLOCK_K
        w_at += BLOCK_K
    if GATED:
        acc = acc / (1.0 + tl.exp(-acc)) * up
    if WIDE:
        at = rows[:, None].to(tl.int64) * stride_out + cols[None, :]
        inside = row_in[:, None] & col_in[None, :]
    else:
        at = rows[None, :].to(tl.int64) * stride_out + cols[:, None]
        inside = col_in[:, None] & row_in[None, :]
    if RESIDUAL:
        acc += tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, acc.to(out.dtype.element_ty), mask=inside)
