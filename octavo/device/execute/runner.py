"""ModelRunner: call 2, from a plan to hidden states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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
        self,
        batch: DeviceBatch,
        inputs: InputBuilder,
        caches: KVCaches,
        graphs: Graphs,
        *,
        stage_draw: Callable[[StepRows], bool],
    ) -> None:
        """``stage_draw`` says whether a step's tokens can be drawn with its forward pass."""
        self._batch = batch
        self._inputs = inputs
        self._caches = caches
        self._graphs = graphs
        self._stage_draw = stage_draw

    def execute(self, plan: SchedulerOutput) -> tuple[StepRows, Tensor]:
        """Return what the step computed, and its hidden states.

        Shapes:
            returns: [T, hidden_size]
        """
        step = self._batch.apply(plan)
        num_tokens = int(step.query_start[-1])
        longest = int((step.starts + step.lengths).max())
        room = self._graphs.room_for(len(step.rows), num_tokens, longest)
        if room is not None and self._stage_draw(step):
            room = replace(room, draws=True)
        inputs = self._inputs.build(step, room)
        ctx = ForwardContext(inputs.attention, self._caches.group_of, self._caches.layers)
        hidden = self._graphs.forward(inputs.tokens, inputs.positions, ctx, room)
        return step, hidden[:num_tokens]
