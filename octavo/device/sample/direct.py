"""Tokens drawn in one pass over the logits, and fetched while the device goes on.

S rows that sample.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.contracts.runner import ModelRunnerOutput, RowStatus
from octavo.device.batch import DeviceBatch, Ints, StepRows
from octavo.device.memory import Memory
from octavo.device.ops.by_device import cuda_kernels
from octavo.device.sample.noise import noise_keys
from octavo.device.sample.state import SamplingState

_STATUS = np.array([RowStatus.OK, RowStatus.NOT_FINITE], np.int32)
_TURNS = 3
"""Host buffers: a step may be asked for when the next ones have been drawn."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Tokens on their way to the host; ``result`` waits for them."""

    step: StepRows
    drawn: NDArray[np.int32]
    """[2, S] tokens and statuses, once ``arrived``."""
    arrived: torch.cuda.Event
    start_time: float

    def result(self) -> ModelRunnerOutput:
        self.arrived.synchronize()
        count, places = len(self.step.rows), self.step.sampling
        token_ids, status = np.zeros((count, 1), np.int32), np.zeros(count, np.int32)
        num_tokens = np.zeros(count, np.int32)
        token_ids[places, 0] = self.drawn[0]
        status[places] = _STATUS[self.drawn[1]]
        num_tokens[places] = status[places] == RowStatus.OK
        return ModelRunnerOutput(
            step=self.step.step,
            token_ids=token_ids,
            num_tokens=num_tokens,
            row_status=status,
            device_time_s=time.perf_counter() - self.start_time,
        )


class DirectDraw:
    """Draws for steps whose rows are all direct; never waits for the device."""

    def __init__(
        self, batch: DeviceBatch, state: SamplingState, memory: Memory, max_requests: int
    ) -> None:
        self._batch = batch
        self._state = state
        self._kernels = cuda_kernels("draw")
        self._size = max_requests
        self._columns = memory.staged("sample", (3 * max_requests,), torch.int64)
        self._out = memory.tensor("sample", (2, max_requests), torch.int32)
        self._hosts = [
            torch.zeros((2, max_requests), dtype=torch.int32, pin_memory=True)
            for _ in range(_TURNS)
        ]
        self._turn = 0

    def serves(self, step: StepRows) -> bool:
        """Whether every row of ``step`` is drawn in one pass."""
        return bool(self._state.is_direct[step.rows].all())

    def draw(self, logits: Tensor, rows: Ints) -> None:
        """Draw a token for each of ``rows`` and append it. ``logits``: [S, V]."""
        state, count = self._state, len(rows)
        columns = self._columns.turn().reshape(3, self._size)
        columns[0, :count] = state.temperature[rows].view(np.int32)
        columns[1, :count] = noise_keys(state.seeds[rows], self._batch.num_tokens[rows])
        columns[2, :count] = self._batch.next_places(rows)
        there = self._columns.send(3 * self._size).view(3, self._size)
        token_ids = self._batch.token_ids.view(-1)
        self._kernels.draw(logits, there, rows=token_ids, out=self._out)
        self._batch.count_appended(rows)

    def fetch(self, step: StepRows, start_time: float) -> Fetched:
        """Send what was drawn to the host, behind everything the device has to do."""
        self._turn = (self._turn + 1) % _TURNS
        host, count = self._hosts[self._turn], len(step.sampling)
        if count:
            host.copy_(self._out, non_blocking=True)
        arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record()
        return Fetched(step, host.numpy()[:, :count], arrived, start_time)
