"""Paged attention in torch: the CPU's backend.

Requests with one query are taken together: one gather, two batched products. A request with
several queries is a prefill and gets a fused product of its own.

r requests of one decode batch, L gathered positions, n queries of a prefill; others as in
``attention/interface.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from octavo.device.attention.interface import AttentionMetadata, AttentionSpec

_GATHER_BYTES = 8 << 20
"""Most bytes of one decode gather: what is gathered is read again, so it should stay in cache."""
_MOST_WASTE = 0.25
"""Part of a decode gather that may be padding, before the batch is split."""
_WORTH_SPLITTING = 64
"""Padding blocks below which a split costs more than it saves."""


@dataclass(frozen=True, slots=True)
class _Span:
    """The blocks that one request's queries of this step read."""

    row: int
    first_token: int
    num_queries: int
    first_block: int
    num_blocks: int
    length: int


@dataclass(frozen=True, slots=True)
class _Decode:
    """One batch of requests with a single query."""

    tokens: Tensor | slice
    """Their places among this step's tokens. [r]"""
    rows: Tensor
    """Half blocks of one head, keys then values. [2 * r * Hkv * B]"""
    unseen: Tensor | None
    """[r, 1, 1, L] bool, or None where every position is seen."""
    unseen_values: Tensor | None
    """Places of unseen positions in the gathered lines of D numbers."""


@dataclass(frozen=True, slots=True)
class _Prefill:
    """One request with several queries."""

    tokens: slice
    rows: Tensor
    """As in ``_Decode``. [2 * Hkv * B]"""
    num_positions: int
    mask: Tensor | None
    """[n, L] added to scores; None is the plain causal mask of a text's beginning."""


@dataclass(frozen=True, slots=True)
class _Step:
    """What every layer of one step needs, computed once."""

    meta: AttentionMetadata
    key_lines: Tensor
    """Where each token's keys go, in lines of D numbers. [T * Hkv]"""
    value_lines: Tensor
    decodes: list[_Decode]
    prefills: list[_Prefill]


class TorchPaged:
    """Batched decode, fused prefill.

    A block is [2, Hkv, block_size, D]: keys, then values; each head's part is one piece of
    memory, so that a gather of such pieces is the matrix that the product wants.
    """

    name: ClassVar[str] = "torch_paged"
    exact: ClassVar[bool] = False
    understands: ClassVar[frozenset[str]] = frozenset(
        {"num_heads", "num_kv_heads", "head_size", "dtype", "scale", "sliding_window"}
    )

    def __init__(self, spec: AttentionSpec) -> None:
        self._spec = spec
        self._step: _Step | None = None

    @classmethod
    def refuses(cls, spec: AttentionSpec) -> str | None:
        if spec.num_heads % spec.num_kv_heads:
            return f"{spec.num_heads} heads do not share {spec.num_kv_heads} KV heads evenly"
        return None

    @classmethod
    def bytes_per_block(cls, spec: AttentionSpec, block_size: int) -> int:
        return 2 * spec.num_kv_heads * block_size * spec.head_size * spec.dtype.itemsize

    def view(self, blocks: Tensor, block_size: int) -> Tensor:
        spec = self._spec
        return blocks.view(spec.dtype).view(
            blocks.shape[0], 2, spec.num_kv_heads, block_size, spec.head_size
        )

    def write(self, kv_cache: Tensor, key: Tensor, value: Tensor, meta: AttentionMetadata) -> None:
        step = self._step_of(meta)
        lines = kv_cache.view(-1, self._spec.head_size)
        lines.index_copy_(0, step.key_lines, key.reshape(-1, self._spec.head_size))
        lines.index_copy_(0, step.value_lines, value.reshape(-1, self._spec.head_size))

    def attend(self, query: Tensor, kv_cache: Tensor, meta: AttentionMetadata) -> Tensor:
        step = self._step_of(meta)
        pieces = kv_cache.view(-1, meta.block_size * self._spec.head_size)
        attended = torch.empty_like(query)
        for decode in step.decodes:
            attended[decode.tokens] = self._decode(query[decode.tokens], pieces, decode)
        for prefill in step.prefills:
            attended[prefill.tokens] = self._prefill(query[prefill.tokens], pieces, prefill)
        return attended

    def _decode(self, query: Tensor, pieces: Tensor, decode: _Decode) -> Tensor:
        spec = self._spec
        gathered = pieces.index_select(0, decode.rows).view(-1, spec.head_size)
        if decode.unseen_values is not None:
            gathered.index_fill_(0, decode.unseen_values, 0)
        count = query.shape[0]
        keys, values = gathered.view(2, count * spec.num_kv_heads, -1, spec.head_size).unbind()
        grouped = (query * spec.scale).view(count * spec.num_kv_heads, -1, spec.head_size)
        scores = torch.bmm(grouped, keys.transpose(1, 2))  # [r * Hkv, H / Hkv, L]
        if decode.unseen is not None:
            by_request = scores.view(count, spec.num_kv_heads, *scores.shape[1:])
            by_request.masked_fill_(decode.unseen, -torch.inf)
        weights = scores.softmax(-1, dtype=torch.float32).to(values.dtype)
        return torch.bmm(weights, values).view(query.shape)

    def _prefill(self, query: Tensor, pieces: Tensor, prefill: _Prefill) -> Tensor:
        spec = self._spec
        gathered = pieces.index_select(0, prefill.rows)
        gathered = gathered.view(2, spec.num_kv_heads, 1, -1, spec.head_size)
        group = spec.num_heads // spec.num_kv_heads
        keys, values = gathered[..., : prefill.num_positions, :].expand(-1, -1, group, -1, -1)
        grouped = query.view(query.shape[0], spec.num_kv_heads, group, spec.head_size)
        attended = functional.scaled_dot_product_attention(
            grouped.permute(1, 2, 0, 3),
            keys,
            values,
            attn_mask=prefill.mask,
            is_causal=prefill.mask is None,
            scale=spec.scale,
        )  # [Hkv, H / Hkv, n, D]
        return attended.permute(2, 0, 1, 3).reshape(query.shape)

    def _step_of(self, meta: AttentionMetadata) -> _Step:
        """Return this step's plan; layers with the same metadata share it."""
        if self._step is None or self._step.meta is not meta:
            self._step = self._plan(meta)
        return self._step

    def _plan(self, meta: AttentionMetadata) -> _Step:
        spec = self._spec
        block, offset = meta.slot_mapping // meta.block_size, meta.slot_mapping % meta.block_size
        key_lines = self._pieces_of(block) * meta.block_size + offset.unsqueeze(1)  # [T, Hkv]
        spans = self._spans(meta)
        single = [span for span in spans if span.num_queries == 1]
        return _Step(
            meta=meta,
            key_lines=key_lines.flatten(),
            value_lines=(key_lines + spec.num_kv_heads * meta.block_size).flatten(),
            decodes=[self._plan_decode(batch, meta) for batch in self._batches(single, meta)],
            prefills=[self._plan_prefill(span, meta) for span in spans if span.num_queries > 1],
        )

    def _pieces_of(self, blocks: Tensor) -> Tensor:
        """Return the key pieces of ``blocks``, one per head; values lie Hkv behind.

        Shapes:
            blocks: [...]
            returns: [..., Hkv]
        """
        num_kv_heads = self._spec.num_kv_heads
        heads = torch.arange(num_kv_heads, device=blocks.device)
        return blocks.long().unsqueeze(-1) * (2 * num_kv_heads) + heads

    def _spans(self, meta: AttentionMetadata) -> list[_Span]:
        window = self._spec.sliding_window
        lengths = meta.host_seq_lens
        if lengths is None:
            lengths = meta.seq_lens.tolist()
        counts = meta.host_query_lens
        if counts is None:
            counts = meta.query_start.diff().tolist()
        spans, token = [], 0
        for row, (count, length) in enumerate(zip(counts, lengths, strict=True)):
            if count:
                first = 0 if window is None else max(0, length - count - window + 1)
                first_block = first // meta.block_size
                num_blocks = -(-length // meta.block_size) - first_block
                spans.append(_Span(row, token, count, first_block, num_blocks, length))
            token += count
        return spans

    def _batches(self, spans: list[_Span], meta: AttentionMetadata) -> list[list[_Span]]:
        """Group requests of like length, so that little of a gather is padding."""
        most_blocks = _GATHER_BYTES // self.bytes_per_block(self._spec, meta.block_size)
        batches: list[list[_Span]] = []
        widest = padding = 0
        for span in sorted(spans, key=lambda span: -span.num_blocks):
            batch = batches[-1] if batches else []
            size = widest * (len(batch) + 1)
            padding += widest - span.num_blocks
            wasteful = padding > max(_WORTH_SPLITTING, _MOST_WASTE * size)
            if not batch or size > most_blocks or wasteful:
                batches.append([span])
                widest, padding = span.num_blocks, 0
            else:
                batch.append(span)
        return [sorted(batch, key=lambda span: span.first_token) for batch in batches]

    def _plan_decode(self, batch: list[_Span], meta: AttentionMetadata) -> _Decode:
        spec = self._spec
        widest = max(span.num_blocks for span in batch)
        facts = torch.tensor(
            [(span.row, span.first_token, span.first_block, span.length) for span in batch]
        ).to(meta.block_table.device)
        row, token, first_block, length = facts.unbind(1)
        columns = first_block.unsqueeze(1) + torch.arange(widest, device=row.device)  # [r, B]
        in_table = columns.clamp(max=meta.block_table.shape[1] - 1)
        blocks = meta.block_table[row.unsqueeze(1), in_table]
        keys = self._pieces_of(blocks).transpose(1, 2)  # [r, Hkv, B]
        rows = torch.stack((keys, keys + spec.num_kv_heads)).flatten()
        offsets = torch.arange(meta.block_size, device=row.device)
        places = (columns.unsqueeze(2) * meta.block_size + offsets).flatten(1)  # [r, L]
        unseen = places >= length.unsqueeze(1)
        if spec.sliding_window is not None:
            unseen |= places < length.unsqueeze(1) - spec.sliding_window
        tokens: Tensor | slice = token
        if batch[-1].first_token - batch[0].first_token == len(batch) - 1:
            tokens = slice(batch[0].first_token, batch[-1].first_token + 1)
        if not unseen.any():
            return _Decode(tokens, rows, None, None)
        by_head = unseen.unsqueeze(1).expand(-1, spec.num_kv_heads, -1)
        values = by_head.flatten().nonzero().flatten() + by_head.numel()
        return _Decode(tokens, rows, unseen[:, None, None], values)

    def _plan_prefill(self, span: _Span, meta: AttentionMetadata) -> _Prefill:
        spec = self._spec
        blocks = meta.block_table[span.row, span.first_block : span.first_block + span.num_blocks]
        keys = self._pieces_of(blocks).transpose(0, 1)  # [Hkv, B]
        rows = torch.stack((keys, keys + spec.num_kv_heads)).flatten()
        first = span.first_block * meta.block_size
        tokens = slice(span.first_token, span.first_token + span.num_queries)
        window = spec.sliding_window
        if span.num_queries == span.length and (window is None or span.length <= window):
            return _Prefill(tokens, rows, span.length, None)
        past = torch.arange(first, span.length, device=rows.device)
        place = torch.arange(span.length - span.num_queries, span.length, device=rows.device)
        unseen = past > place.unsqueeze(1)
        if window is not None:
            unseen |= past <= place.unsqueeze(1) - window
        mask = torch.zeros(unseen.shape, dtype=spec.dtype, device=rows.device)
        return _Prefill(tokens, rows, len(past), mask.masked_fill_(unseen, -torch.inf))


BACKEND = TorchPaged
