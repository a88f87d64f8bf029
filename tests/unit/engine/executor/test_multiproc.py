"""A process per rank: rings, deaths, ends in bounded time."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from octavo.contracts.sampling import TokenSampling
from octavo.contracts.schedule import NewRequest, SampleInput, SchedulerOutput
from octavo.engine.executor.base import WorkerFailed
from octavo.engine.executor.multiproc import MultiprocExecutor
from octavo.kit.errors import ConfigError
from tests.unit.engine.executor.conftest import Start, run
from tests.unit.engine.executor.workers import ScriptedWorker, config_for


def test_each_rank_is_a_process_of_its_own_and_ends_with_the_executor(start: Start) -> None:
    executor = start("multiproc", world_size=2)
    executor.start()
    executor.load()

    pids = executor.call_all("pid", [])
    assert len({os.getpid(), *pids}) == 3
    assert [spec.layer for spec in executor.kv_cache_specs()] == [0, 1]
    assert executor.measure_memory().available_for_kv_bytes == 500
    assert [run(executor, step).result().step for step in range(20)] == list(range(20))

    executor.close()

    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.parametrize("call", ["load", "execute", "sample"])
def test_the_death_of_a_rank_is_fatal_and_says_how(call: str, start: Start) -> None:
    executor = start("multiproc", f"die {call}")

    with pytest.raises(WorkerFailed, match=r"worker 0 .* signal 9 \(Killed\)") as failure:
        _load_and_run(executor)

    assert failure.value.is_fatal
    with pytest.raises(WorkerFailed):
        executor.check()
    with pytest.raises(WorkerFailed):
        run(executor, 1).result()


def test_the_death_of_an_idle_rank_is_seen_by_check(start: Start) -> None:
    executor = start("multiproc")
    executor.start()
    executor.load()
    executor.check()
    [pid] = executor.call_all("pid", [])
    assert isinstance(pid, int)

    os.kill(pid, 15)
    deadline = time.monotonic() + 5
    while Path(f"/proc/{pid}/cmdline").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
        if not Path(f"/proc/{pid}/cmdline").read_bytes():
            break

    with pytest.raises(WorkerFailed, match="signal 15"):
        executor.check()


def test_an_error_of_one_of_several_ranks_is_fatal(start: Start) -> None:
    executor = start("multiproc", "fail sample 1", world_size=2)
    executor.start()
    executor.load()

    assert run(executor, 0).result().step == 0
    with pytest.raises(WorkerFailed, match=r"rank .: ValueError") as failure:
        run(executor, 1).result()

    assert failure.value.is_fatal


@pytest.mark.parametrize("call", ["sample", "close"])
def test_closing_kills_what_is_stuck_in_bounded_time(
    call: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("octavo.engine.executor.multiproc._CLOSE_TIMEOUT_S", 0.5)
    executor = start("multiproc", f"hang {call}")
    executor.start()
    executor.load()
    [pid] = executor.call_all("pid", [])
    pending = run(executor, 0)

    begin = time.monotonic()
    executor.close()

    assert time.monotonic() - begin < 4
    assert not Path(f"/proc/{pid}").exists()
    if call == "sample":
        with pytest.raises(WorkerFailed):
            pending.result()


def test_a_plan_larger_than_the_ring_arrives(start: Start) -> None:
    executor = start("multiproc")
    executor.start()
    executor.load()
    sampling = TokenSampling(max_tokens=1)
    new = [
        NewRequest(row, str(row), np.arange(100_000, dtype=np.int32), 100_000, [[1]], 0, sampling)
        for row in range(20)
    ]
    rows = np.arange(20, dtype=np.int32)

    executor.execute(SchedulerOutput(step=0, new=new, rows=rows, num_scheduled_tokens=rows + 1))

    assert executor.sample(SampleInput(0)).result().token_ids[:, 0].tolist() == rows.tolist()


def test_a_worker_that_is_no_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="--executor uniproc"):
        MultiprocExecutor(config_for(), ScriptedWorker)


def _load_and_run(executor: MultiprocExecutor) -> None:
    executor.start()
    executor.load()
    for step in range(3):
        run(executor, step).result()
