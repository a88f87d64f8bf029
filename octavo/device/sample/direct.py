"""Tokens drawn in one pass over the logits, and fetched while the device goes on.

S rows that sample.
"""

from __future__ import annotations

import time
from collections.abc import Callable
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
        self._staged: StepRows | None = None
        """A step whose tokens are drawn with its forward pass."""
        self._columns = memory.staged("sample", (3 * max_requests,), torch.int64)
        self._there = self._columns.tensor.view(3, max_requests)
        self._out = memory.tensor("sample", (2, max_requests), torch.int32)
        self._hosts = [
            torch.zeros((2, max_requests), dtype=torch.int32, pin_memory=True)
            for _ in range(_TURNS)
        ]
        self._turn = 0

    def serves(self, step: StepRows) -> bool:
        """Whether every row of ``step`` is drawn in one pass."""
        return bool(self._state.is_direct[step.rows].all())

    def stage(self, step: StepRows) -> bool:
        """Get ready to draw with ``launch`` before the sample call, where that can be.

        Requests must be known, and all of them sample.
        """
        self._staged = None
        if step.new or len(step.sampling) != len(step.rows) or not self.serves(step):
            return False
        self._send(step.rows)
        self._staged = step
        return True

    def launch(self, logits: Tensor) -> None:
        """Draw what was sent, one token per line of ``logits`` [S, V]."""
        token_ids = self._batch.token_ids.view(-1)
        self._kernels.draw(logits, self._there, rows=token_ids, out=self._out)

    def draw(self, step: StepRows, logits: Callable[[], Tensor]) -> None:
        """Draw a token for each row that samples, unless that was done, and count it."""
        rows = step.rows[step.sampling]
        if self._staged is not step and len(rows):
            self._send(rows)
            self.launch(logits())
        self._staged = None
        self._batch.count_appended(rows)

    def _send(self, rows: Ints) -> None:
        state, count = self._state, len(rows)
        columns = self._columns.turn().reshape(3, self._size)
        columns[0, :count] = state.temperature[rows].view(np.int32)
        columns[1, :count] = noise_keys(state.seeds[rows], self._batch.num_tokens[rows])
        columns[2, :count] = self._batch.next_places(rows)
        columns[0, count:] = 0
        columns[2, count:] = -1
        self._columns.send(3 * self._size)

    def fetch(self, step: StepRows, start_time: float) -> Fetched:
        """Send what was drawn to the host, behind everything the device has to do."""
        self._turn = (self._turn + 1) % _TURNS
        host, count = self._hosts[self._turn], len(step.sampling)
        if count:
            host.copy_(self._out, non_blocking=True)
        arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record()
        return Fetched(step, host.numpy()[:, :count], arrived, start_time)
