"""Attention written down plainly: one request, one mask, one softmax. The oracle of all others."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from octavo.device.attention.interface import AttentionMetadata, AttentionSpec


class TorchReference:
    """Gathers each request's keys and values, and computes in float32.

    A block is [2, block_size, Hkv, D]: keys, then values.
    """

    name: ClassVar[str] = "torch_reference"
    exact: ClassVar[bool] = False
    """The library's matrix products may round differently for other lengths."""
    understands: ClassVar[frozenset[str]] = frozenset(
        {
            "num_heads",
            "num_kv_heads",
            "head_size",
            "dtype",
            "scale",
            "causal",
            "sliding_window",
        }
    )

    def __init__(self, spec: AttentionSpec) -> None:
        self._spec = spec

    @classmethod
    def refuses(cls, spec: AttentionSpec) -> str | None:
        if spec.num_heads % spec.num_kv_heads:
            return f"{spec.num_heads} heads do not share {spec.num_kv_heads} KV heads evenly"
        return None

    @classmethod
    def bytes_per_block(cls, spec: AttentionSpec, block_size: int) -> int:
        return 2 * block_size * spec.num_kv_heads * spec.head_size * spec.dtype.itemsize

    def view(self, blocks: Tensor, block_size: int) -> Tensor:
        spec = self._spec
        return blocks.view(spec.dtype).view(
            blocks.shape[0], 2, block_size, spec.num_kv_heads, spec.head_size
        )

    def write(self, kv_cache: Tensor, key: Tensor, value: Tensor, meta: AttentionMetadata) -> None:
        block, offset = meta.slot_mapping // meta.block_size, meta.slot_mapping % meta.block_size
        kv_cache[block, 0, offset] = key
        kv_cache[block, 1, offset] = value

    def attend(self, query: Tensor, kv_cache: Tensor, meta: AttentionMetadata) -> Tensor:
        attended = torch.zeros_like(query)
        starts = meta.query_start.tolist()
        for row, length in enumerate(meta.seq_lens.tolist()):
            first, last = starts[row], starts[row + 1]
            blocks = meta.block_table[row, : -(-length // meta.block_size)].long()
            cached = kv_cache[blocks].float()  # [B, 2, block_size, Hkv, D]
            keys, values = cached.transpose(0, 1).flatten(1, 2)[:, :length].unbind()
            attended[first:last] = self._one(query[first:last].float(), keys, values)
        return attended

    def _one(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attend the last queries of one request to its whole context.

        Shapes:
            query: [n, H, D]
            keys, values: [L, Hkv, D]
            returns: [n, H, D]
        """
        spec = self._spec
        length, group = keys.shape[0], spec.num_heads // spec.num_kv_heads
        keys, values = (x.repeat_interleave(group, dim=1) for x in (keys, values))
        scores = torch.einsum("nhd,lhd->hnl", query, keys) * spec.scale
        past = torch.arange(length, device=query.device)
        place = past[length - query.shape[0] :].unsqueeze(1)  # [n, 1]
        seen = torch.ones(query.shape[0], length, dtype=torch.bool, device=query.device)
        if spec.causal:
            seen &= past <= place
        if spec.sliding_window is not None:
            seen &= past > place - spec.sliding_window
        # What a query does not see may hold NaN: it is replaced, not multiplied.
        weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        seen_by_any = seen.any(0)
        values = values.masked_fill(~seen_by_any.view(-1, 1, 1), 0)
        return torch.einsum("hnl,lhd->nhd", weights, values)


BACKEND = TorchReference
