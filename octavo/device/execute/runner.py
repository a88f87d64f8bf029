"""ModelRunner: call 2, from a plan to hidden states."""

from __future__ import annotations

from torch import Tensor

from octavo.contracts.schedule import SchedulerOutput
from octavo.device.attention.interface import ForwardContext
from octavo.device.batch import DeviceBatch, StepRows
from octavo.device.execute.inputs import InputBuilder
from octavo.device.graphs import Graphs
from octavo.device.memory import KVCaches


class ModelRunner:
    """Applies a plan to the rows and runs the forward pass."""

    def __init__(
        self, batch: DeviceBatch, inputs: InputBuilder, caches: KVCaches, graphs: Graphs
    ) -> None:
        self._batch = batch
        self._inputs = inputs
        self._caches = caches
        self._graphs = graphs

    def execute(self, plan: SchedulerOutput) -> tuple[StepRows, Tensor]:
        """Return what the step computed, and its hidden states.

        Shapes:
            returns: [T, hidden_size]
        """
        step = self._batch.apply(plan)
        longest = int((step.starts + step.lengths).max())
        room = self._graphs.room_for(len(step.rows), int(step.query_start[-1]), longest)
        inputs = self._inputs.build(step, room)
        ctx = ForwardContext(inputs.attention, self._caches.group_of, self._caches.layers)
        hidden = self._graphs.forward(inputs.token_ids, inputs.positions, ctx, room)
        return step, hidden[: int(step.query_start[-1])]
