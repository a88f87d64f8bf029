"""Rows to the inputs of a forward pass, in buffers that are made once.

T tokens this step, R requests this step, B blocks per request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.config.scheduler import SchedulerConfig
from octavo.device.attention.interface import AttentionMetadata
from octavo.device.batch import DeviceBatch, Ints, StepRows
from octavo.device.graphs import Room
from octavo.device.memory import Memory, Staged


@dataclass(frozen=True, slots=True)
class StepInputs:
    """What the model reads in one step."""

    token_ids: Tensor
    """[T] int64"""
    positions: Tensor
    """[T] int64"""
    attention: list[AttentionMetadata]
    """One per KV group."""


@dataclass(frozen=True, slots=True)
class _GroupBuffers:
    slots: Staged  # [T] int64
    table: Staged  # [R * B] int32


class InputBuilder:
    """Gathers each step's inputs from the rows."""

    def __init__(self, batch: DeviceBatch, limits: SchedulerConfig, memory: Memory) -> None:
        tokens, requests = limits.max_num_batched_tokens, limits.max_num_seqs
        self._batch = batch
        self._arange = np.arange(max(tokens, requests) + 1, dtype=np.int64)
        self._positions = memory.staged("step", (tokens,), torch.int64)
        self._places = memory.staged("step", (tokens,), torch.int64)
        self._token_ids = memory.tensor("step", (tokens,), torch.int64)
        self._narrow = memory.tensor("step", (tokens,), torch.int32)
        self._query_start = memory.staged("step", (requests + 1,), torch.int32)
        self._seq_lens = memory.staged("step", (requests,), torch.int32)
        self._groups = [
            _GroupBuffers(
                slots=memory.staged("step", (tokens,), torch.int64),
                table=memory.staged("step", (requests * table.shape[1],), torch.int32),
            )
            for table in batch.block_tables
        ]

    def build(self, step: StepRows, room: Room | None = None) -> StepInputs:
        """Fill the buffers; the result is valid until the next call.

        Rows that pad a step to ``room`` have one token, that of position 0 of row 0, and read and
        write block 0.
        """
        count, requests = int(step.query_start[-1]), len(step.rows)
        padding = 0 if room is None else room.requests - requests
        row_of, positions = self._token_places(step, count)
        places = self._places.turn()[: count + padding]
        np.multiply(row_of, self._batch.width, out=places[:count])
        places[:count] += positions
        places[count:] = 0
        self._positions.host[count : count + padding] = 0
        query_start = self._query_start.turn()[: requests + padding + 1]
        query_start[: requests + 1] = step.query_start
        query_start[requests + 1 :] = self._arange[count + 1 : count + padding + 1]
        seq_lens = self._seq_lens.turn()[: requests + padding]
        np.add(step.starts, step.lengths, out=seq_lens[:requests], casting="same_kind")
        seq_lens[requests:] = 1
        query = self._query_start.send(len(query_start)), self._seq_lens.send(len(seq_lens))
        lengths = [*step.lengths.tolist(), *[1] * padding], seq_lens.tolist()
        longest = max(lengths[1]) if room is None else room.positions
        return StepInputs(
            token_ids=self._gather_tokens(count + padding),
            positions=self._positions.send(count + padding),
            attention=[
                self._metadata(group, step, (row_of, positions), query, (*lengths, longest))
                for group in range(len(self._groups))
            ],
        )

    def _token_places(self, step: StepRows, count: int) -> tuple[Ints, Ints]:
        """Return the row and the position of every token."""
        positions = self._positions.turn()[:count]
        if count == len(step.rows):  # one token each: nothing to spread out
            positions[:] = step.starts
            return step.rows, positions
        row_of = np.repeat(step.rows, step.lengths)
        positions[:] = self._arange[:count]
        positions += np.repeat(step.starts - step.query_start[:-1], step.lengths)
        return row_of, positions

    def _gather_tokens(self, count: int) -> Tensor:
        narrow, wide = self._narrow[:count], self._token_ids[:count]
        torch.index_select(self._batch.token_ids.view(-1), 0, self._places.send(count), out=narrow)
        return wide.copy_(narrow)

    def _metadata(
        self,
        group: int,
        step: StepRows,
        places: tuple[Ints, Ints],
        query: tuple[Tensor, Tensor],
        lengths: tuple[list[int], list[int], int],
    ) -> AttentionMetadata:
        block_size, buffers = self._batch.block_sizes[group], self._groups[group]
        table = self._batch.block_tables[group]
        count, total = len(step.rows), len(lengths[0])
        num_tokens = len(places[0]) + total - count
        num_blocks = -(-lengths[2] // block_size)
        slots = buffers.slots.turn()[:num_tokens]
        _fill_slots(slots[: len(places[0])], table, places, block_size)
        slots[len(places[0]) :] = 0
        gathered = buffers.table.turn()[: total * num_blocks].reshape(total, num_blocks)
        np.take(table[:, :num_blocks], step.rows, axis=0, out=gathered[:count], mode="clip")
        gathered[count:] = 0
        return AttentionMetadata(
            query_start=query[0],
            seq_lens=query[1],
            block_table=buffers.table.send(gathered.size).view(total, num_blocks),
            slot_mapping=buffers.slots.send(num_tokens),
            block_size=block_size,
            max_query_len=max(lengths[0]),
            max_seq_len=lengths[2],
            host_query_lens=lengths[0],
            host_seq_lens=lengths[1],
        )


def _fill_slots(
    slots: NDArray[Any],  # Any: a staged buffer's dtype is a value
    table: NDArray[np.int32],
    places: tuple[Ints, Ints],
    block_size: int,
) -> None:
    """Write ``block * block_size + offset`` of every token; block sizes are powers of two."""
    row_of, positions = places
    slots[:] = table[row_of, positions >> (block_size.bit_length() - 1)]
    slots *= block_size
    slots += positions & (block_size - 1)
