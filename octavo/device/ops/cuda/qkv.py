"""Head norms, rotation and cache write in one pass over the QKV projection.

T tokens, H query heads, Hkv KV heads, D head size. Keys and values go to blocks of layout
[num_blocks, 2, Hkv, block_size, D].
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_HEADS, _NUM_WARPS = 8, 2
"""Heads of one program, and its warps; part of the numerics: the sums of a norm follow them."""


def rotate_and_store(
    qkv: Tensor,
    *,
    num_heads: int,
    num_kv_heads: int,
    head_size: int,
    norms: tuple[Tensor, Tensor] | None,
    eps: float,
    cos: Tensor,
    sin: Tensor,
    slots: Tensor,
    kv_cache: Tensor,
    block_size: int,
    query: Tensor,
) -> Tensor:
    """Write normed, rotated queries to ``query`` and keys and values to their slots.

    Shapes:
        qkv: [T, (H + 2 * Hkv) * D]
        norms: query gain and key gain [D], or None
        cos: [T, D], both halves equal; sin: [T, D / 2]
        slots: [T]; slot = block * block_size + offset
        query: [T, H, D]
    """
    tokens = qkv.shape[0]
    has_norm = norms is not None
    q_gain, k_gain = norms if norms is not None else (cos, cos)
    all_heads = num_heads + 2 * num_kv_heads
    _rotate_and_store[(tokens, triton.cdiv(all_heads, _HEADS))](
        qkv, q_gain, k_gain, cos, sin, slots, kv_cache, query, eps,
        qkv.stride(0), kv_cache.stride(0),
        H=num_heads, HKV=num_kv_heads, D=head_size, BLOCK_SIZE=block_size, NORM=has_norm,
        HEADS=_HEADS, num_warps=_NUM_WARPS,
    )  # fmt: skip
    return query


def rotate_reference(
    x: Tensor, gain: Tensor | None, eps: float, cos: Tensor, sin: Tensor
) -> Tensor:
    """Float64 oracle for one kind of head: norm, then rotation. x: [T, heads, D]."""
    wide = x.double()
    if gain is not None:
        wide = wide * (wide.pow(2).mean(-1, keepdim=True) + eps).rsqrt() * gain.double()
    cos, sin = cos.double()[:, None, : sin.shape[-1]], sin.double()[:, None]
    left, right = wide.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1).to(x.dtype)


@triton.jit
def _rotate_and_store(
    qkv, q_gain, k_gain, cos_table, sin_table, slots, kv_cache, query, eps,
    stride_qkv, stride_block,
    H: tl.constexpr, HKV: tl.constexpr, D: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    NORM: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    HALF: tl.constexpr = D // 2
    half = tl.arange(0, HALF)[None, :]
    head = (tl.program_id(1) * HEADS + tl.arange(0, HEADS))[:, None]
    inside = (head < H + 2 * HKV) & (half >= 0)
    source = qkv + token * stride_qkv + head * D + half
    left = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    right = tl.load(source + HALF, mask=inside, other=0.0).to(tl.float32)
    is_query, is_value = head < H, head >= H + HKV
    turned_left, turned_right = left, right
    if NORM:
        scale = tl.rsqrt(tl.sum(left * left + right * right, 1) / D + eps)[:, None]
        gain = tl.where(is_query, tl.load(q_gain + half), tl.load(k_gain + half))
        turned_left = left * scale * gain.to(tl.float32)
        gain = tl.where(is_query, tl.load(q_gain + HALF + half), tl.load(k_gain + HALF + half))
        turned_right = right * scale * gain.to(tl.float32)
    cos = tl.load(cos_table + token * D + half).to(tl.float32)
    sin = tl.load(sin_table + token * HALF + half).to(tl.float32)
    new_left = turned_left * cos - turned_right * sin
    new_right = turned_right * cos + turned_left * sin
    new_left = tl.where(is_value, left, new_left).to(query.dtype.element_ty)
    new_right = tl.where(is_value, right, new_right).to(query.dtype.element_ty)
    at_query = query + (token * H + head) * D + half
    tl.store(at_query, new_left, mask=inside & is_query)
    tl.store(at_query + HALF, new_right, mask=inside & is_query)
    slot = tl.load(slots + token).to(tl.int64)
    block, offset = slot // BLOCK_SIZE, slot % BLOCK_SIZE
    at_cache = kv_cache + block * stride_block + ((head - H) * BLOCK_SIZE + offset) * D + half
    tl.store(at_cache, new_left, mask=inside & (head >= H))
    tl.store(at_cache + HALF, new_right, mask=inside & (head >= H))
