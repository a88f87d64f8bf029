"""One token per row: the largest logit, or the largest of scaled logits plus noise.

S rows that sample, V vocabulary. The noise is that of ``sample/noise.py``: a hash of (key, token
id). A row's token does not depend on the rows beside it. Of equal scores the lowest id wins.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024


def draw(logits: Tensor, columns: Tensor, *, rows: Tensor, out: Tensor) -> Tensor:
    """Write each row's token to its place in ``rows``, and (token, status) to ``out``.

    A status is 1 where logits are not finite at their largest, or hold a NaN; the token is 0.

    Shapes:
        logits: [S, V]
        columns: [3, >= S] int64: bits of the float32 temperature (0 is greedy), key of the
            noise, and place in ``rows`` (below 0: nowhere)
        rows: int32, flat
        out: [2, >= S] int32
    """
    count, vocab_size = logits.shape
    parts = triton.cdiv(vocab_size, _BLOCK)
    scores = torch.empty(count, parts, dtype=torch.float32, device=logits.device)
    tokens = torch.empty(count, parts, dtype=torch.int32, device=logits.device)
    _draw_parts[(parts, count)](
        logits, columns, scores, tokens, logits.stride(0), columns.stride(0), vocab_size, parts,
        BLOCK=_BLOCK, num_warps=4,
    )  # fmt: skip
    _draw_rows[(count,)](
        scores, tokens, columns, rows, out, columns.stride(0), out.stride(0), parts,
        PARTS=triton.next_power_of_2(parts), num_warps=4,
    )  # fmt: skip
    return out


@triton.jit
def _noise(key, token):
    """Return -log(exponential noise), in float32."""
    state = (token >> 1).to(tl.uint64) * 0x9E3779B97F4A7C15 + key.to(tl.uint64, bitcast=True)
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB
    state = state ^ (state >> 31)
    bits = (state >> ((token & 1) * 32).to(tl.uint64)).to(tl.uint32).to(tl.int32, bitcast=True)
    uniform = (bits.to(tl.float64) + 2147483648.5) * 2.3283064365386963e-10
    return -tl.log((-tl.log(uniform)).to(tl.float32))


@triton.jit
def _draw_parts(
    logits,
    columns,
    scores,
    tokens,
    stride_logits,
    stride_columns,
    V,
    parts,
    BLOCK: tl.constexpr,
):
    part, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
    token = part * BLOCK + tl.arange(0, BLOCK)
    inside = token < V
    at = logits + row * stride_logits + token
    score = tl.load(at, mask=inside, other=float("-inf")).to(tl.float32)
    is_bad = tl.max(((score != score) | (score == float("inf"))).to(tl.int32), 0)
    temperature = tl.load(columns + row).to(tl.int32).to(tl.float32, bitcast=True)
    if temperature > 0.0:
        key = tl.load(columns + stride_columns + row)
        score = score / temperature + _noise(key, token)
    best = tl.max(score, 0)
    first = tl.min(tl.where(score == best, token, V), 0)
    tl.store(scores + row * parts + part, best)
    tl.store(tokens + row * parts + part, tl.where(is_bad > 0, -1, first))


@triton.jit
def _draw_rows(
    scores,
    tokens,
    columns,
    rows,
    out,
    stride_columns,
    stride_out,
    parts,
    PARTS: tl.constexpr,
):
    row, part = tl.program_id(0).to(tl.int64), tl.arange(0, PARTS)
    inside = part < parts
    score = tl.load(scores + row * parts + part, mask=inside, other=float("-inf"))
    token = tl.load(tokens + row * parts + part, mask=inside, other=0x7FFFFFFF)
    best = tl.max(score, 0)
    first = tl.min(tl.where(score == best, token, 0x7FFFFFFF), 0)
    is_good = (tl.min(token, 0) >= 0) & (best > float("-inf")) & (best < float("inf"))
    chosen = tl.where(is_good, first, 0)
    place = tl.load(columns + 2 * stride_columns + row)
    tl.store(rows + place, chosen, mask=place >= 0)
    tl.store(out + row, chosen)
    tl.store(out + stride_out + row, tl.where(is_good, 0, 1))
