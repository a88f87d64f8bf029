"""Paged attention whose bits depend on a request alone.

The context is cut at absolute positions into pieces of ``PIECE`` tokens. Each piece starts
fresh and gives (maximum, sum, values); pieces are merged in order by one formula. Decode and
prefill differ in who merges: a second kernel, or the same program. The sum is a column of
ones beside the values, so it comes from the matrix unit in the order of the values.

R requests, T tokens, H heads, Hkv KV heads, G = H / Hkv, D head size. KV blocks are
[num_blocks, 2, Hkv, block_size, D].
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PIECE = 64
"""Tokens of one piece; part of the numerics. [tokens]"""

_NUM_WARPS, _NUM_STAGES = 2, 3
_PREFILL_WARPS, _PREFILL_STAGES, _PREFILL_REGISTERS = 4, 1, 168
"""Registers so that three programs share a multiprocessor."""
_PREFILL_ROWS = 64
_LOG2_E = 1.4426950408889634


def decode(
    query: Tensor,
    kv_cache: Tensor,
    *,
    block_table: Tensor,
    seq_lens: Tensor,
    scale: float,
    window: int,
    num_splits: int,
    partial: tuple[Tensor, Tensor],
    out: Tensor,
) -> Tensor:
    """Attend one query per request.

    Shapes:
        query, out: [R, H, D]
        block_table: [R, B] int32
        seq_lens: [R] int32
        partial: values [R, H, P, D] and (maximum, sum) [R, H, P, 2], float32, P pieces
    ``window`` 0 is none. ``num_splits`` programs share the pieces of one request and head.
    """
    num_requests, num_heads, head_size = query.shape
    num_kv_heads, block_size = kv_cache.shape[2], kv_cache.shape[3]
    group = num_heads // num_kv_heads
    values, stats = partial
    _decode_pieces[(num_requests, num_kv_heads, num_splits)](
        query, kv_cache, block_table, seq_lens, values, stats, out,
        scale * _LOG2_E, block_table.stride(0), kv_cache.stride(0), values.shape[2],
        WINDOW=window, PRECISION=_precision(query), H=num_heads,
        HKV=num_kv_heads, D=head_size, BLOCK_SIZE=block_size,
        ROWS=max(16, triton.next_power_of_2(group)), PIECE_=PIECE, ALONE=num_splits == 1,
        num_warps=_NUM_WARPS, num_stages=_NUM_STAGES,
    )  # fmt: skip
    if num_splits == 1:
        return out
    _merge_pieces[(num_requests, num_heads)](
        values, stats, seq_lens, out, values.shape[2],
        WINDOW=window, H=num_heads, D=head_size, PIECE_=PIECE, num_warps=1,
    )  # fmt: skip
    return out


def prefill(
    query: Tensor,
    kv_cache: Tensor,
    *,
    block_table: Tensor,
    seq_lens: Tensor,
    query_start: Tensor,
    tile_request: Tensor,
    tile_first: Tensor,
    scale: float,
    window: int,
    out: Tensor,
) -> Tensor:
    """Attend any number of queries per request.

    Shapes:
        query, out: [T, H, D]
        query_start: [R + 1] int32
        tile_request, tile_first: [tiles] int32: request of a tile, and its first query therein;
            a tile is ``tokens_per_tile`` queries
    """
    _, num_heads, head_size = query.shape
    num_kv_heads, block_size = kv_cache.shape[2], kv_cache.shape[3]
    _prefill[(tile_request.shape[0], num_kv_heads)](
        query, kv_cache, block_table, seq_lens, query_start, tile_request, tile_first, out,
        scale * _LOG2_E, block_table.stride(0), kv_cache.stride(0),
        WINDOW=window, PRECISION=_precision(query), H=num_heads,
        HKV=num_kv_heads, D=head_size, BLOCK_SIZE=block_size,
        ROWS=_PREFILL_ROWS, PIECE_=PIECE,
        num_warps=_PREFILL_WARPS, num_stages=_PREFILL_STAGES, maxnreg=_PREFILL_REGISTERS,
    )  # fmt: skip
    return out


def tokens_per_tile(num_heads: int, num_kv_heads: int) -> int:
    """Return how many queries one tile of ``prefill`` holds."""
    return _PREFILL_ROWS // (num_heads // num_kv_heads)


def reference(
    query: Tensor,
    kv_cache: Tensor,
    *,
    block_table: Tensor,
    seq_lens: Tensor,
    query_start: Tensor,
    scale: float,
    window: int,
) -> Tensor:
    """Float64 oracle of both, one request and head at a time."""
    out = torch.empty_like(query)
    num_heads, num_kv_heads, block_size = query.shape[1], kv_cache.shape[2], kv_cache.shape[3]
    for r in range(seq_lens.shape[0]):
        first, last = int(query_start[r]), int(query_start[r + 1])
        length = int(seq_lens[r])
        blocks = block_table[r, : -(-length // block_size)].long()
        held = kv_cache[blocks].double().transpose(0, 1).transpose(1, 2)  # [2, Hkv, B, bs, D]
        keys, values = held.reshape(2, num_kv_heads, -1, query.shape[2])[:, :, :length]
        at = torch.arange(length - (last - first), length)[:, None]
        seen = torch.arange(length)[None, :]
        mask = (seen <= at) & ((seen > at - window) if window else True)
        for h in range(num_heads):
            kv_head = h // (num_heads // num_kv_heads)
            scores = query[first:last, h].double() @ keys[kv_head].T * scale
            weights = scores.masked_fill(~mask.to(scores.device), float("-inf")).softmax(-1)
            out[first:last, h] = (weights @ values[kv_head]).to(out.dtype)
    return out


def _precision(tensor: Tensor) -> str:
    """How float32 is multiplied: as it is, never rounded; other types have one way."""
    return "ieee" if tensor.dtype == torch.float32 else "tf32"


@triton.jit
def _piece(
    q, key_at, value_at, inside, seen, scale,
    ONES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One piece from fresh: maximum, sum and values of its rows."""
    k = tl.load(key_at, mask=inside[None, :], other=0.0)  # [D, PIECE]
    scores = tl.dot(q, k, input_precision=PRECISION) * scale
    scores = tl.where(seen, scores, float("-inf"))
    top = tl.max(scores, 1)
    base = tl.where(top == float("-inf"), 0.0, top)
    p = tl.exp2(scores - base[:, None]).to(q.dtype)
    v = tl.load(value_at, mask=inside[:, None], other=0.0)  # [PIECE, D]
    values = tl.dot(p, v, input_precision=PRECISION)
    ones = tl.full((p.shape[1], ONES), 1.0, q.dtype)
    total = tl.max(
        tl.dot(p, ones, input_precision=PRECISION), 1
    )  # equal columns: the maximum picks one
    return top, total, values


@triton.jit
def _merge(top, total, values, piece_top, piece_total, piece_values):
    """Add one piece to what is merged; a masked piece changes nothing."""
    both = tl.maximum(top, piece_top)
    base = tl.where(both == float("-inf"), 0.0, both)
    old, new = tl.exp2(top - base), tl.exp2(piece_top - base)
    total = tl.fma(piece_total, new, total * old)
    values = tl.fma(piece_values, new[:, None] + tl.zeros_like(piece_values), values * old[:, None])
    return both, total, values


@triton.jit(do_not_specialize=["stride_table", "P"])
def _decode_pieces(
    query, kv_cache, block_table, seq_lens, out_values, out_stats, out,
    scale, stride_table, stride_block, P,
    WINDOW: tl.constexpr, PRECISION: tl.constexpr, H: tl.constexpr,
    HKV: tl.constexpr, D: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    ROWS: tl.constexpr, PIECE_: tl.constexpr, ALONE: tl.constexpr,
):  # fmt: skip
    r, kv_head, split = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    G: tl.constexpr = H // HKV
    length = tl.load(seq_lens + r)
    row, dim, place = tl.arange(0, ROWS), tl.arange(0, D), tl.arange(0, PIECE_)
    head = kv_head * G + row
    q = tl.load(
        query + (r * H + head[:, None]) * D + dim[None, :], mask=row[:, None] < G, other=0.0
    )
    first = 0
    if WINDOW > 0:
        first = tl.maximum(length - WINDOW, 0) // PIECE_
    keys = kv_cache + kv_head * BLOCK_SIZE * D
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    values = tl.zeros((ROWS, D), tl.float32)
    kept = row < G
    for piece in range(first + split, tl.cdiv(length, PIECE_), tl.num_programs(2)):
        positions = piece * PIECE_ + place
        inside = positions < length
        if WINDOW > 0:
            inside = inside & (positions >= length - WINDOW)
        block = tl.load(
            block_table + r * stride_table + positions // BLOCK_SIZE, mask=inside, other=0
        )
        at = block.to(tl.int64) * stride_block + (positions % BLOCK_SIZE) * D
        piece_top, piece_total, piece_values = _piece(
            q, keys + at[None, :] + dim[:, None],
            keys + HKV * BLOCK_SIZE * D + at[:, None] + dim[None, :],
            inside, inside[None, :] & (row[:, None] >= 0), scale, 16, PRECISION,
        )  # fmt: skip
        if ALONE:
            top, total, values = _merge(top, total, values, piece_top, piece_total, piece_values)
        else:
            where = (r * H + head) * P + piece
            tl.store(
                out_values + where[:, None] * D + dim[None, :], piece_values, mask=kept[:, None]
            )
            tl.store(out_stats + where * 2, piece_top, mask=kept)
            tl.store(out_stats + where * 2 + 1, piece_total, mask=kept)
    if ALONE:
        at_out = out + (r * H + head[:, None]) * D + dim[None, :]
        tl.store(at_out, (values / total[:, None]).to(out.dtype.element_ty), mask=kept[:, None])


@triton.jit(do_not_specialize=["P"])
def _merge_pieces(
    in_values, in_stats, seq_lens, out, P,
    WINDOW: tl.constexpr, H: tl.constexpr, D: tl.constexpr, PIECE_: tl.constexpr,
):  # fmt: skip
    r, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    length = tl.load(seq_lens + r)
    dim, one = tl.arange(0, D), tl.arange(0, 1)
    top = tl.full((1,), float("-inf"), tl.float32)
    total = tl.zeros((1,), tl.float32)
    values = tl.zeros((1, D), tl.float32)
    first = 0
    if WINDOW > 0:
        first = tl.maximum(length - WINDOW, 0) // PIECE_
    for piece in range(first, tl.cdiv(length, PIECE_)):
        where = (r * H + head) * P + piece + one
        piece_values = tl.load(in_values + where[:, None] * D + dim[None, :])
        top, total, values = _merge(
            top, total, values,
            tl.load(in_stats + where * 2), tl.load(in_stats + where * 2 + 1), piece_values,
        )  # fmt: skip
    at = out + (r * H + head) * D + one[:, None] * D + dim[None, :]
    tl.store(at, (values / total[:, None]).to(out.dtype.element_ty))


@triton.jit(do_not_specialize=["stride_table"])
def _prefill(
    query, kv_cache, block_table, seq_lens, query_start, tile_request, tile_first, out,
    scale, stride_table, stride_block,
    WINDOW: tl.constexpr, PRECISION: tl.constexpr, H: tl.constexpr,
    HKV: tl.constexpr, D: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    ROWS: tl.constexpr, PIECE_: tl.constexpr,
):  # fmt: skip
    tile, kv_head = tl.program_id(0), tl.program_id(1)
    G: tl.constexpr = H // HKV
    r = tl.load(tile_request + tile).to(tl.int64)
    length = tl.load(seq_lens + r)
    start = tl.load(query_start + r)
    num_queries = tl.load(query_start + r + 1) - start
    row, dim, place = tl.arange(0, ROWS), tl.arange(0, D), tl.arange(0, PIECE_)
    nth = tl.load(tile_first + tile) + row // G
    head = kv_head * G + row % G
    alive = (nth < num_queries) & (row < ROWS // G * G)
    position = length - num_queries + nth
    at_query = ((start + nth).to(tl.int64) * H + head)[:, None] * D + dim[None, :]
    q = tl.load(query + at_query, mask=alive[:, None], other=0.0)
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    values = tl.zeros((ROWS, D), tl.float32)
    first_position = length - num_queries + tl.load(tile_first + tile)
    last_position = tl.minimum(first_position + (ROWS // G) - 1, length - 1)
    first = 0
    if WINDOW > 0:
        first = tl.maximum(first_position - WINDOW + 1, 0) // PIECE_
    keys = kv_cache + kv_head * BLOCK_SIZE * D
    whole = (first_position + 1) // PIECE_  # pieces that every row of the tile sees in full
    if WINDOW > 0:
        whole = first
    for piece in range(first, whole):
        positions = piece * PIECE_ + place
        block = tl.load(block_table + r * stride_table + positions // BLOCK_SIZE)
        at = block.to(tl.int64) * stride_block + (positions % BLOCK_SIZE) * D
        scores = (
            tl.dot(q, tl.load(keys + at[None, :] + dim[:, None]), input_precision=PRECISION) * scale
        )
        piece_top = tl.max(scores, 1)
        p = tl.exp2(scores - piece_top[:, None]).to(q.dtype)
        held = tl.load(keys + HKV * BLOCK_SIZE * D + at[:, None] + dim[None, :])
        piece_values = tl.dot(p, held, input_precision=PRECISION)
        piece_total = tl.max(
            tl.dot(p, tl.full((PIECE_, 16), 1.0, q.dtype), input_precision=PRECISION), 1
        )
        top, total, values = _merge(top, total, values, piece_top, piece_total, piece_values)
    for piece in range(whole, last_position // PIECE_ + 1):
        positions = piece * PIECE_ + place
        inside = positions < length
        block = tl.load(
            block_table + r * stride_table + positions // BLOCK_SIZE, mask=inside, other=0
        )
        at = block.to(tl.int64) * stride_block + (positions % BLOCK_SIZE) * D
        seen = positions[None, :] <= position[:, None]
        if WINDOW > 0:
            seen = seen & (positions[None, :] > position[:, None] - WINDOW)
        piece_top, piece_total, piece_values = _piece(
            q, keys + at[None, :] + dim[:, None],
            keys + HKV * BLOCK_SIZE * D + at[:, None] + dim[None, :],
            inside, seen, scale, 16, PRECISION,
        )  # fmt: skip
        top, total, values = _merge(top, total, values, piece_top, piece_total, piece_values)
    tl.store(
        out + at_query, (values / total[:, None]).to(out.dtype.element_ty), mask=alive[:, None]
    )
