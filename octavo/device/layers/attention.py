"""Self-attention, from hidden states to hidden states."""

from __future__ import annotations

from torch import Tensor, nn

from octavo.config.model import ModelConfig
from octavo.device.attention.interface import AttentionSpec, ForwardContext
from octavo.device.attention.prepare import HeadNorms, Rotation, preparer_of
from octavo.device.layers.build import Build
from octavo.device.layers.linear import column_parallel, row_parallel
from octavo.device.layers.norm import RMSNorm


class SelfAttention(nn.Module):
    """Grouped-query attention over this request's past, with rotary positions.

    ``head_norms`` are norms of each query head and each key head, before rotation.
    """

    def __init__(
        self,
        config: ModelConfig,
        layer: int,
        build: Build,
        *,
        head_norms: tuple[RMSNorm, RMSNorm] | None = None,
    ) -> None:
        super().__init__()
        self.layer = layer
        self.spec = AttentionSpec(
            num_heads=build.tensor.share(config.num_heads),
            num_kv_heads=build.tensor.share(config.num_kv_heads),
            head_size=config.head_size,
            dtype=build.dtype,
            scale=config.head_size**-0.5,
            sliding_window=config.layers[layer].window,
        )
        self.backend = build.backend_for(self.spec)
        self._prepare = preparer_of(self.backend, self.spec)
        width, kv_width = (n * config.head_size for n in (config.num_heads, config.num_kv_heads))
        shards = (width, kv_width, kv_width)
        self.qkv_proj = column_parallel(
            config.hidden_size, shards, build, bias=config.attention_bias
        )
        self.o_proj = row_parallel(width, config.hidden_size, build, bias=config.output_bias)
        self.q_norm: RMSNorm | None = None
        self.k_norm: RMSNorm | None = None
        if head_norms is not None:
            self.q_norm, self.k_norm = head_norms

    def forward(self, rotation: Rotation, hidden: Tensor, ctx: ForwardContext) -> Tensor:
        meta = ctx.attention[ctx.group_of[self.layer]]
        kv_cache = ctx.kv_caches[self.layer]
        query = self._prepare(self.qkv_proj(hidden), self._norms(), rotation, kv_cache, meta)
        attended = self.backend.attend(query, kv_cache, meta)
        return self.o_proj(attended.reshape(hidden.shape[0], -1))

    def _norms(self) -> HeadNorms | None:
        if self.q_norm is None or self.k_norm is None:
            return None
        return HeadNorms(self.q_norm.weight, self.k_norm.weight, self.q_norm.eps)
