"""Rows to the inputs of a forward pass, in buffers that are made once.

T tokens this step, R requests this step, B blocks per request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.config.scheduler import SchedulerConfig
from octavo.device.attention.interface import AttentionMetadata
from octavo.device.batch import DeviceBatch, Ints, StepRows
from octavo.device.graphs import Room
from octavo.device.memory import Columns, Memory, Staged


@dataclass(frozen=True, slots=True)
class StepInputs:
    """What the model reads in one step."""

    tokens: Callable[[], Tensor]
    """Gathers token ids, [T] int64."""
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
        self._arange = np.arange(tokens, dtype=np.int64)
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
        self._padded = PaddedInputs(batch, self._groups, limits.max_num_seqs, memory)

    def build(self, step: StepRows, room: Room | None = None) -> StepInputs:
        """Fill the buffers; the result is valid until the next call."""
        if room is not None:
            return self._padded.build(step, room)
        self._padded.forget()
        count, requests = int(step.query_start[-1]), len(step.rows)
        row_of, positions = self._token_places(step, count)
        places = self._places.turn()[:count]
        np.multiply(row_of, self._batch.width, out=places)
        places += positions
        query_start = self._query_start.turn()[: requests + 1]
        query_start[:] = step.query_start
        seq_lens = self._seq_lens.turn()[:requests]
        np.add(step.starts, step.lengths, out=seq_lens, casting="same_kind")
        query = self._query_start.send(requests + 1), self._seq_lens.send(requests)
        lengths = step.lengths.tolist(), seq_lens.tolist()
        return StepInputs(
            tokens=self._token_gather(count),
            positions=self._positions.send(count),
            attention=[
                self._metadata(group, step, (row_of, positions), query, lengths)
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

    def _token_gather(self, count: int) -> Callable[[], Tensor]:
        return partial(
            _gather,
            self._batch.token_ids.view(-1),
            self._places.send(count),
            self._narrow[:count],
            self._token_ids[:count],
        )

    def _metadata(
        self,
        group: int,
        step: StepRows,
        places: tuple[Ints, Ints],
        query: tuple[Tensor, Tensor],
        lengths: tuple[list[int], list[int]],
    ) -> AttentionMetadata:
        block_size, buffers = self._batch.block_sizes[group], self._groups[group]
        table = self._batch.block_tables[group]
        longest = max(lengths[1])
        num_blocks = -(-longest // block_size)
        _fill_slots(buffers.slots.turn()[: len(places[0])], table, places, block_size)
        size = len(step.rows) * num_blocks
        gathered = buffers.table.turn()[:size].reshape(len(step.rows), num_blocks)
        np.take(table[:, :num_blocks], step.rows, axis=0, out=gathered, mode="clip")
        return AttentionMetadata(
            query_start=query[0],
            seq_lens=query[1],
            block_table=buffers.table.send(size).view(len(step.rows), num_blocks),
            slot_mapping=buffers.slots.send(len(places[0])),
            block_size=block_size,
            max_query_len=max(lengths[0]),
            max_seq_len=longest,
            host_query_lens=lengths[0],
            host_seq_lens=lengths[1],
        )


class PaddedInputs:
    """Inputs of steps of one token per request, padded to a ``Room``; few copies to the device.

    Rows that are padding have the first token of row 0, at position 0, and read and write block 0.
    """

    def __init__(
        self, batch: DeviceBatch, groups: list[_GroupBuffers], size: int, memory: Memory
    ) -> None:
        self._batch = batch
        self._groups = groups
        self._slots = [f"slots {index}" for index in range(len(groups))]
        names = dict.fromkeys(("positions", "places", *self._slots), torch.int64)
        names["seq_lens"] = torch.int32
        self._columns: Columns = memory.staged_together("step", names, size)
        self._token_ids = memory.tensor("step", (size,), torch.int64)
        self._narrow = memory.tensor("step", (size,), torch.int32)
        self._sent: tuple[int, Room, bytes] | None = None
        """What the device's block tables hold."""
        self._query_start = memory.tensor("step", (size + 1,), torch.int32)
        self._query_start.copy_(torch.arange(size + 1))

    def build(self, step: StepRows, room: Room) -> StepInputs:
        """Fill the buffers; the result is valid until the next call."""
        count, total = len(step.rows), room.requests
        host, there = self._columns.turn(), self._columns.tensors
        for column in host.values():
            column[count:total] = 0
        positions = host["positions"][:count]
        positions[:] = step.starts
        np.multiply(step.rows, self._batch.width, out=host["places"][:count])
        host["places"][:count] += positions
        np.add(step.starts, 1, out=host["seq_lens"][:count], casting="same_kind")
        host["seq_lens"][count:total] = 1
        for index, table in enumerate(self._batch.block_tables):
            slots = host[self._slots[index]][:count]
            _fill_slots(slots, table, (step.rows, positions), self._batch.block_sizes[index])
        self._columns.send()
        self._send_tables(step, room)
        return StepInputs(
            tokens=partial(
                _gather,
                self._batch.token_ids.view(-1),
                there["places"][:total],
                self._narrow[:total],
                self._token_ids[:total],
            ),
            positions=there["positions"][:total],
            attention=[self._metadata(group, room, there) for group in range(len(self._groups))],
        )

    def _send_tables(self, step: StepRows, room: Room) -> None:
        """Send block tables, unless the device has them from the last step."""
        rows = step.rows.tobytes()
        sent = (self._batch.version, room, rows)
        if sent == self._sent:
            return
        self._sent = sent
        for group, table in enumerate(self._batch.block_tables):
            num_blocks = -(-room.positions // self._batch.block_sizes[group])
            staged = self._groups[group].table
            gathered = staged.turn()[: room.requests * num_blocks].reshape(-1, num_blocks)
            part = gathered[: len(step.rows)]
            np.take(table[:, :num_blocks], step.rows, axis=0, out=part, mode="clip")
            gathered[len(step.rows) :] = 0
            staged.send(gathered.size)

    def forget(self) -> None:
        """Send block tables again: another step has used their place."""
        self._sent = None

    def _metadata(self, group: int, room: Room, there: dict[str, Tensor]) -> AttentionMetadata:
        block_size, total = self._batch.block_sizes[group], room.requests
        num_blocks = -(-room.positions // block_size)
        table = self._groups[group].table.tensor[: total * num_blocks].view(total, num_blocks)
        return AttentionMetadata(
            query_start=self._query_start[: total + 1],
            seq_lens=there["seq_lens"][:total],
            block_table=table,
            slot_mapping=there[self._slots[group]][:total],
            block_size=block_size,
            max_query_len=1,
            max_seq_len=room.positions,
        )


def _gather(tokens: Tensor, places: Tensor, narrow: Tensor, wide: Tensor) -> Tensor:
    torch.index_select(tokens, 0, places, out=narrow)
    return wide.copy_(narrow)


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
