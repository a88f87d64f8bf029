"""The worker as a guest in the engine process."""

from __future__ import annotations

import os
import threading
import time

import pytest

from octavo.contracts.worker import WorkerInit
from octavo.engine.executor.base import WorkerFailed
from octavo.engine.executor.uniproc import UniprocExecutor
from octavo.kit.errors import ConfigError
from tests.unit.engine.executor.conftest import Start, run
from tests.unit.engine.executor.workers import ScriptedWorker, config_for


def test_the_worker_lives_in_this_process(start: Start) -> None:
    executor = start("uniproc")
    executor.start()
    executor.load()

    assert executor.call_all("pid", []) == [os.getpid()]


def test_calls_two_and_three_do_not_wait_for_the_worker() -> None:
    gate = threading.Event()

    class Gated(ScriptedWorker):
        def execute(self, plan: object) -> None:
            gate.wait(10)
            super().execute(plan)  # type: ignore[arg-type]  # the plan is handed on

    executor = UniprocExecutor(config_for(), Gated)
    executor.start()
    executor.load()
    pending = [run(executor, step) for step in range(3)]
    gate.set()

    assert [each.result().step for each in pending] == [0, 1, 2]
    executor.close()


def test_all_calls_come_from_one_thread() -> None:
    threads: set[int] = set()

    class Watched(ScriptedWorker):
        def __init__(self, init: WorkerInit) -> None:
            threads.add(threading.get_ident())
            super().__init__(init)

        def _act(self, call: str, step: int = 0) -> None:
            threads.add(threading.get_ident())

    executor = UniprocExecutor(config_for(), Watched)
    executor.start()
    executor.load()
    run(executor, 0).result()
    executor.close()

    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_several_ranks_are_refused() -> None:
    with pytest.raises(ConfigError, match="--executor multiproc"):
        UniprocExecutor(config_for(world_size=2), ScriptedWorker)


def test_closing_does_not_wait_for_a_stuck_worker_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("octavo.engine.executor.uniproc._CLOSE_TIMEOUT_S", 0.1)
    gate = threading.Event()

    class Stuck(ScriptedWorker):
        def load(self) -> None:
            gate.wait(10)

    executor = UniprocExecutor(config_for(), Stuck)
    loading = threading.Thread(target=executor.load)
    executor.start()
    loading.start()

    begin = time.monotonic()
    executor.close()

    assert time.monotonic() - begin < 2
    gate.set()
    loading.join()


def test_memory_that_cannot_be_had_at_the_start_is_for_the_operator() -> None:
    class Greedy(ScriptedWorker):
        def load(self) -> None:
            raise MemoryError("12 GB wanted")

    executor = UniprocExecutor(config_for(), Greedy)
    executor.start()

    with pytest.raises(WorkerFailed, match="12 GB wanted") as failure:
        executor.load()

    assert failure.value.is_operator
    executor.close()
