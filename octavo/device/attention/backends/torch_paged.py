"""Paged attention in torch: the CPU's backend.

Requests with one query are taken together: one gather, then batched products. A request with
several queries is cut into tiles of queries. Both do the same arithmetic for a row, whatever else
is computed with it: docs/decisions/ says how.

r requests of one decode batch, L gathered positions, n queries of a prefill; others as in
``attention/interface.py``.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from octavo.device.attention.interface import AttentionMetadata, AttentionSpec
from octavo.device.ops.batched_matmul import PIECE, least_rows, weighted_sum

logger = logging.getLogger(__name__)

_GATHER_BYTES = 8 << 20
"""Most bytes of one decode gather: what is gathered is read again, so it should stay in cache."""
_MOST_WASTE = 0.25
"""Part of a decode gather that may be padding, before the batch is split."""
_WORTH_SPLITTING = 64
"""Padding blocks below which a split costs more than it saves."""
_TILE_SCORES = 1 << 20
"""Scores of one tile of a prefill: few enough to stay in cache."""
_TILE_QUERIES = 64
_LINE = 32
"""Contexts are gathered in multiples of this many positions, whole vectors."""


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
class _Tile:
    """Some queries of a prefill, and the context up to the last of them."""

    tokens: slice
    num_positions: int
    first_hidden: int
    """Positions before this are seen by every query of the tile."""
    unseen: Tensor
    """[n, 1, num_positions - first_hidden] bool"""


@dataclass(frozen=True, slots=True)
class _Prefill:
    """One request with several queries."""

    rows: Tensor
    """As in ``_Decode``. [2 * Hkv * B]"""
    seen: slice
    """Gathered positions that some query sees; others may hold anything."""
    tiles: list[_Tile]


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
    """Batched decode, tiled prefill.

    A block is [2, Hkv, block_size, D]: keys, then values; each head's part is one piece of
    memory, so that a gather of such pieces is the matrix that the product wants.
    """

    name: ClassVar[str] = "torch_paged"
    exact: ClassVar[bool] = True
    """Where the library passes the check at start; a warning says where it does not."""
    understands: ClassVar[frozenset[str]] = frozenset(
        {"num_heads", "num_kv_heads", "head_size", "dtype", "scale", "sliding_window"}
    )

    def __init__(self, spec: AttentionSpec) -> None:
        self._spec = spec
        self._group = spec.num_heads // spec.num_kv_heads
        self._step: _Step | None = None
        least = least_rows(spec.head_size, spec.dtype)
        if least is None:
            logger.warning(
                "torch's products of %s depend on the batch here: a text may differ in company",
                spec.dtype,
            )
        self._least_rows = least or 1

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
        scaled = query * self._spec.scale
        attended = torch.empty_like(scaled)
        for decode in step.decodes:
            attended[decode.tokens] = self._decode(scaled[decode.tokens], pieces, decode)
        for prefill in step.prefills:
            self._prefill(scaled, pieces, prefill, attended)
        return attended

    def _decode(self, query: Tensor, pieces: Tensor, decode: _Decode) -> Tensor:
        spec = self._spec
        gathered = pieces.index_select(0, decode.rows).view(-1, spec.head_size)
        if decode.unseen_values is not None:
            gathered.index_fill_(0, decode.unseen_values, 0)
        count = query.shape[0]
        keys, values = gathered.view(2, count * spec.num_kv_heads, -1, spec.head_size).unbind()
        grouped = query.view(count * spec.num_kv_heads, self._group, spec.head_size)
        scores = self._scores(grouped, keys)  # [r * Hkv, rows, L]
        if decode.unseen is not None:
            by_request = scores.view(count, spec.num_kv_heads, *scores.shape[1:])
            by_request.masked_fill_(decode.unseen, -torch.inf)
        return self._attended(scores, values)[:, : self._group].reshape(query.shape)

    def _prefill(self, query: Tensor, pieces: Tensor, prefill: _Prefill, attended: Tensor) -> None:
        """Fill the places of one request's tokens in ``attended``."""
        spec = self._spec
        gathered = pieces.index_select(0, prefill.rows)
        keys, values = gathered.view(2, spec.num_kv_heads, -1, spec.head_size).unbind()
        values[:, : prefill.seen.start] = 0
        values[:, prefill.seen.stop :] = 0
        by_group = (-1, spec.num_kv_heads, self._group, spec.head_size)
        for tile in prefill.tiles:
            grouped = query[tile.tokens].view(by_group).transpose(0, 1).flatten(1, 2)
            rows = grouped.shape[1]
            scores = self._scores(grouped, keys[:, : tile.num_positions])  # [Hkv, n * group, L]
            late = scores[:, :rows, tile.first_hidden :]
            by_head = late.view(spec.num_kv_heads, -1, self._group, late.shape[-1])
            by_head.masked_fill_(tile.unseen, -torch.inf)
            sums = self._attended(scores, values[:, : tile.num_positions])[:, :rows]
            by_head = sums.view(spec.num_kv_heads, -1, self._group, spec.head_size)
            attended[tile.tokens].view(by_group).copy_(by_head.transpose(0, 1))

    def _scores(self, grouped: Tensor, keys: Tensor) -> Tensor:
        """Return products of queries and keys; rows are added where few rows have other bits."""
        missing = self._least_rows - grouped.shape[1]
        if missing > 0:
            grouped = functional.pad(grouped, (0, 0, 0, missing))
        return torch.bmm(grouped, keys.transpose(1, 2))

    def _attended(self, scores: Tensor, values: Tensor) -> Tensor:
        weights = scores.softmax(-1, dtype=torch.float32).to(values.dtype)
        return weighted_sum(weights, values)

    def _step_of(self, meta: AttentionMetadata) -> _Step:
        """Return this step's plan; layers with the same metadata share it."""
        if self._step is None or self._step.meta is not meta:
            self._step = self._plan(meta)
        return self._step

    def _plan(self, meta: AttentionMetadata) -> _Step:
        block, offset = meta.slot_mapping // meta.block_size, meta.slot_mapping % meta.block_size
        key_lines = self._pieces_of(block) * meta.block_size + offset.unsqueeze(1)  # [T, Hkv]
        spans = self._spans(meta)
        single = [span for span in spans if span.num_queries == 1]
        return _Step(
            meta=meta,
            key_lines=key_lines.flatten(),
            value_lines=(key_lines + self._spec.num_kv_heads * meta.block_size).flatten(),
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
        """Find what each request reads. Windows begin at a piece, so that sums do not shift."""
        window = self._spec.sliding_window
        lengths, counts = meta.host_seq_lens, meta.host_query_lens
        if lengths is None:
            lengths = meta.seq_lens.tolist()
        if counts is None:
            counts = meta.query_start.diff().tolist()
        spans, token = [], 0
        for row, (count, length) in enumerate(zip(counts, lengths, strict=True)):
            if count:
                first = 0 if window is None else max(0, length - count - window + 1)
                first = first // PIECE * PIECE
                num_positions = -(-(length - first) // _LINE) * _LINE
                num_blocks = -(-num_positions // meta.block_size)
                first_block = first // meta.block_size
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
        keys = self._pieces_of(_blocks(meta, row.unsqueeze(1), columns)).transpose(1, 2)
        rows = torch.stack((keys, keys + spec.num_kv_heads)).flatten()  # of [2, r, Hkv, B]
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
        columns = torch.arange(span.num_blocks, device=meta.block_table.device) + span.first_block
        keys = self._pieces_of(_blocks(meta, span.row, columns)).transpose(0, 1)  # [Hkv, B]
        rows = torch.stack((keys, keys + self._spec.num_kv_heads)).flatten()
        first, window = span.first_block * meta.block_size, self._spec.sliding_window
        begin = 0 if window is None else span.length - span.num_queries - window + 1
        seen = slice(max(0, begin - first), span.length - first)
        most = _TILE_SCORES // (self._spec.num_heads * (span.length - first))
        size = min(max(most, self._least_rows), _TILE_QUERIES)
        cuts = [*range(0, span.num_queries, size), span.num_queries]
        tiles = [
            self._plan_tile(span, first, slice(*queries), columns.device)
            for queries in pairwise(cuts)
        ]
        return _Prefill(rows, seen, tiles)

    def _plan_tile(self, span: _Span, first: int, queries: slice, device: torch.device) -> _Tile:
        """Cut the context behind the tile's last query; ``first`` is its first position."""
        window = self._spec.sliding_window
        begin = span.length - span.num_queries + queries.start
        end = span.length - span.num_queries + queries.stop
        num_positions = -(-(end - first) // _LINE) * _LINE
        hidden_from = begin if window is None else first
        past = torch.arange(hidden_from, first + num_positions, device=device)
        place = torch.arange(begin, end, device=device).unsqueeze(1)
        unseen = past > place
        if window is not None:
            unseen |= past <= place - window
        tokens = slice(span.first_token + queries.start, span.first_token + queries.stop)
        return _Tile(tokens, num_positions, hidden_from - first, unseen.unsqueeze(1))


def _blocks(meta: AttentionMetadata, row: Tensor | int, columns: Tensor) -> Tensor:
    """Return block numbers; columns behind the table repeat its last one, and are not seen."""
    return meta.block_table[row, columns.clamp(max=meta.block_table.shape[1] - 1)]


BACKEND = TorchPaged
