"""Head norms, rotation and cache write in one pass over the QKV projection.

T tokens, H query heads, Hkv KV heads, D head size. Keys and values go to blocks of layout
[num_blocks, 2, Hkv, block_size, D].
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


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
    _rotate_and_store[(tokens, num_heads + 2 * num_kv_heads)](
        qkv, q_gain, k_gain, cos, sin, slots, kv_cache, query, eps,
        qkv.stride(0), kv_cache.stride(0),
        H=num_heads, HKV=num_kv_heads, D=head_size, BLOCK_SIZE=block_size, NORM=has_norm,
        num_warps=1,
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
    NORM: tl.constexpr,
):  # fmt: skip
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    HALF: tl.constexpr = D // 2
    half = tl.arange(0, HALF)
    source = qkv + token * stride_qkv + head * D
    left = tl.load(source + half).to(tl.float32)
    right = tl.load(source + HALF + half).to(tl.float32)
    slot = tl.load(slots + token).to(tl.int64)
    block, offset = slot // BLOCK_SIZE, slot % BLOCK_SIZE
    if head < H + HKV:
        if NORM:
            scale = tl.rsqrt(tl.sum(left * left + right * right) / D + eps)
            gain = q_gain if head < H else k_gain
            left = left * scale * tl.load(gain + half).to(tl.float32)
            right = right * scale * tl.load(gain + HALF + half).to(tl.float32)
        cos = tl.load(cos_table + token * D + half).to(tl.float32)
        sin = tl.load(sin_table + token * HALF + half).to(tl.float32)
        turned_left = left * cos - right * sin
        turned_right = right * cos + left * sin
        if head < H:
            target = query + (token * H + head) * D
        else:
            target = kv_cache + block * stride_block + ((head - H) * BLOCK_SIZE + offset) * D
        tl.store(target + half, turned_left.to(query.dtype.element_ty))
        tl.store(target + HALF + half, turned_right.to(query.dtype.element_ty))
    else:
        target = kv_cache + block * stride_block + ((head - H) * BLOCK_SIZE + offset) * D
        tl.store(target + half, left.to(query.dtype.element_ty))
        tl.store(target + HALF + half, right.to(query.dtype.element_ty))
