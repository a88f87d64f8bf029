"""Runs a model by hand: paged blocks, chunks and mixed batches, without runner or engine."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import torch
from torch import Tensor

from octavo.device.attention.interface import AttentionMetadata, ForwardContext
from octavo.device.models.base import CausalModel


@dataclass(slots=True)
class Text:
    """One request: its tokens, how many are computed, and its blocks."""

    token_ids: list[int]
    num_computed: int = 0
    blocks: list[int] = field(default_factory=list)
    logits: list[Tensor] = field(default_factory=list)
    """One row per computed position."""


class Driver:
    """Block storage full of NaN, and a step that computes some tokens of some texts.

    Blocks are handed out in random order, so that tables are never runs.
    """

    def __init__(
        self, model: CausalModel, *, block_size: int, num_blocks: int = 400, seed: int = 0
    ) -> None:
        self._model = model
        self._block_size = block_size
        self._layers = model.attention_layers()
        self._caches = []
        for spec, backend in self._layers:
            size = backend.bytes_per_block(spec, block_size)
            raw = torch.full((num_blocks, size), 255, dtype=torch.uint8)  # NaN in each float type
            self._caches.append(backend.view(raw, block_size))
        self._free = list(range(1, num_blocks))
        random.Random(seed).shuffle(self._free)

    @torch.no_grad()
    def step(self, plan: list[tuple[Text, int]]) -> None:
        """Compute the next so many tokens of each text, and keep their logits."""
        rows, positions, slots, tables = [], [], [], []
        for text, count in plan:
            end = text.num_computed + count
            while len(text.blocks) * self._block_size < end:
                text.blocks.append(self._free.pop())
            places = range(text.num_computed, end)
            rows += text.token_ids[text.num_computed : end]
            positions += places
            slots += [self._slot(text, place) for place in places]
            tables.append(text.blocks)
        hidden = self._model.forward(
            torch.tensor(rows), torch.tensor(positions), self._context(plan, slots, tables)
        )
        logits = self._model.compute_logits(hidden)
        for (text, count), part in zip(
            plan, logits.split([count for _, count in plan]), strict=True
        ):
            text.logits += part.unbind()
            text.num_computed += count

    def _slot(self, text: Text, place: int) -> int:
        block = text.blocks[place // self._block_size]
        return block * self._block_size + place % self._block_size

    def _context(
        self, plan: list[tuple[Text, int]], slots: list[int], tables: list[list[int]]
    ) -> ForwardContext:
        counts = [count for _, count in plan]
        lengths = [text.num_computed + count for text, count in plan]
        widest = max(len(table) for table in tables) + 2  # tables have room to grow
        meta = AttentionMetadata(
            query_start=torch.tensor([0, *counts]).cumsum(0).int(),
            seq_lens=torch.tensor(lengths, dtype=torch.int32),
            block_table=torch.tensor(
                [table + [0] * (widest - len(table)) for table in tables], dtype=torch.int32
            ),
            slot_mapping=torch.tensor(slots),
            block_size=self._block_size,
            max_query_len=max(counts),
            max_seq_len=max(lengths),
            host_query_lens=counts,
            host_seq_lens=lengths,
        )
        return ForwardContext([meta], [0] * len(self._layers), self._caches)


def compute(driver: Driver, texts: list[Text], *, chunk: int) -> None:
    """Compute all tokens of all texts, at most ``chunk`` of each per step."""
    while pending := [text for text in texts if text.num_computed < len(text.token_ids)]:
        driver.step(
            [(text, min(chunk, len(text.token_ids) - text.num_computed)) for text in pending]
        )


def continue_greedily(driver: Driver, texts: list[Text], count: int) -> None:
    """Append so many tokens to each text, each the likeliest."""
    for _ in range(count):
        for text in texts:
            text.token_ids.append(int(text.logits[-1].argmax()))
        driver.step([(text, len(text.token_ids) - text.num_computed) for text in texts])
