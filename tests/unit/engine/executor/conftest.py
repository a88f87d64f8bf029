"""Executors under test, closed at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from octavo.contracts.schedule import SampleInput, SchedulerOutput
from octavo.engine.executor.base import Executor, Pending
from octavo.kit.extension import ExtensionPoint
from tests.unit.engine.executor.workers import config_for

MAKER = "tests.unit.engine.executor.workers:make_worker"
EXECUTORS = ExtensionPoint("octavo.executors", "octavo.engine.executor", "EXECUTOR")

Start = Callable[..., Executor]


@pytest.fixture
def start() -> Iterator[Start]:
    """Make an executor by name, for a worker with a behaviour."""
    started: list[Executor] = []

    def make(name: str, behaviour: str = "", world_size: int = 1) -> Executor:
        executor: Executor = EXECUTORS.load(name)(
            config_for(behaviour, world_size=world_size), MAKER
        )
        started.append(executor)
        return executor

    yield make
    for executor in started:
        executor.close()
        executor.close()


def plan(step: int, num_rows: int = 2) -> SchedulerOutput:
    rows = np.arange(step, step + num_rows, dtype=np.int32)
    return SchedulerOutput(
        step=step, new=[], rows=rows, num_scheduled_tokens=np.ones(num_rows, np.int32)
    )


def run(executor: Executor, step: int, num_rows: int = 2) -> Pending:
    executor.execute(plan(step, num_rows))
    return executor.sample(SampleInput(step))
