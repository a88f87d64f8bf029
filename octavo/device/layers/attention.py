"""Self-attention, from hidden states to hidden states."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from octavo.device.attention.interface import AttentionSpec, ForwardContext
from octavo.device.layers.build import Build
from octavo.device.layers.linear import column_parallel, row_parallel
from octavo.device.layers.norm import RMSNorm
from octavo.device.layers.rotary import Rotation
from octavo.device.ops.rotate import rotate


@dataclass(frozen=True, slots=True)
class Heads:
    """How a layer's width is cut into heads."""

    num_heads: int
    num_kv_heads: int
    head_size: int


class SelfAttention(nn.Module):
    """Grouped-query attention over this request's past, with rotary positions.

    ``head_norms`` are norms of each query head and each key head, before rotation.
    """

    def __init__(
        self,
        build: Build,
        *,
        layer: int,
        hidden_size: int,
        heads: Heads,
        window: int | None = None,
        qkv_bias: bool = False,
        output_bias: bool = False,
        head_norms: tuple[RMSNorm, RMSNorm] | None = None,
    ) -> None:
        super().__init__()
        self.layer = layer
        self.spec = AttentionSpec(
            num_heads=build.tensor.share(heads.num_heads),
            num_kv_heads=build.tensor.share(heads.num_kv_heads),
            head_size=heads.head_size,
            dtype=build.dtype,
            scale=heads.head_size**-0.5,
            sliding_window=window,
        )
        self.backend = build.backend_for(self.spec)
        size = heads.head_size
        shards = (heads.num_heads * size, heads.num_kv_heads * size, heads.num_kv_heads * size)
        self.qkv_proj = column_parallel(hidden_size, shards, build, bias=qkv_bias)
        self.o_proj = row_parallel(heads.num_heads * size, hidden_size, build, bias=output_bias)
        self.q_norm, self.k_norm = head_norms or (None, None)

    def forward(self, rotation: Rotation, hidden: Tensor, ctx: ForwardContext) -> Tensor:
        spec = self.spec
        num_rotated = spec.num_heads + spec.num_kv_heads
        heads = self.qkv_proj(hidden).view(hidden.shape[0], -1, spec.head_size)  # [T, H + 2Hkv, D]
        if self.q_norm is not None and self.k_norm is not None:
            heads[:, : spec.num_heads] = self.q_norm(heads[:, : spec.num_heads])
            keys = heads[:, spec.num_heads : num_rotated]
            heads[:, spec.num_heads : num_rotated] = self.k_norm(keys)
        query_key = rotate(heads[:, :num_rotated], rotation.cos, rotation.sin)
        meta = ctx.attention[ctx.group_of[self.layer]]
        kv_cache = ctx.kv_caches[self.layer]
        key, value = query_key[:, spec.num_heads :], heads[:, num_rotated:]
        self.backend.write(kv_cache, key, value, meta)
        attended = self.backend.attend(query_key[:, : spec.num_heads], kv_cache, meta)
        return self.o_proj(attended.reshape(hidden.shape[0], -1))
