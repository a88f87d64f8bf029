"""What every executor promises, whatever the number of its processes."""

from __future__ import annotations

import pytest

from octavo.contracts.kv import KVCacheConfig
from octavo.engine.executor.base import Executor, WorkerFailed
from tests.unit.engine.executor.conftest import EXECUTORS, Start, run

NAMES = EXECUTORS.names()


@pytest.mark.parametrize("name", NAMES)
def test_start_calls_reach_the_worker_and_bring_its_answers(name: str, start: Start) -> None:
    executor = start(name)

    executor.start()
    executor.load()
    [spec] = executor.kv_cache_specs()
    memory = executor.measure_memory()
    executor.allocate(KVCacheConfig(num_blocks=7, groups=[], tensors=[]))

    assert (spec.kind, memory.available_for_kv_bytes) == ("full", 500)
    assert executor.call_all("marks", []) == [1007]
    assert executor.call_all("echo", ["hello"]) == ["hello"]
    executor.check()


@pytest.mark.parametrize("name", NAMES)
def test_steps_in_flight_resolve_in_any_order(name: str, start: Start) -> None:
    executor = start(name)
    executor.start()
    executor.load()

    pending = [run(executor, step, num_rows=step + 1) for step in range(50)]

    for step in (7, 49, *range(49)):
        sampled = pending[step].result()
        assert sampled.step == step
        assert sampled.token_ids[:, 0].tolist() == list(range(step, 2 * step + 1))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("call", ["execute", "sample"])
def test_a_host_error_fails_steps_until_reset_and_the_worker_goes_on(
    name: str, call: str, start: Start
) -> None:
    executor = start(name, f"fail {call} 3")
    executor.start()
    executor.load()
    pending = [run(executor, step) for step in range(6)]

    for step in range(3):
        assert pending[step].result().step == step
    for step in range(3, 6):
        with pytest.raises(WorkerFailed, match=f"ValueError: no luck in {call}") as failure:
            pending[step].result()
        assert not failure.value.is_fatal
        assert not failure.value.is_operator

    executor.reset()
    executor.check()

    assert run(executor, 6).result().step == 6


@pytest.mark.parametrize("name", NAMES)
def test_a_reset_with_steps_in_flight_leaves_none_unresolved(name: str, start: Start) -> None:
    executor = start(name)
    executor.start()
    executor.load()
    pending = [run(executor, step) for step in range(4)]

    executor.reset()

    assert [each.result().step for each in pending] == [0, 1, 2, 3]
    assert run(executor, 4).result().step == 4


@pytest.mark.parametrize("name", NAMES)
def test_a_lost_device_is_fatal(name: str, start: Start) -> None:
    executor = start(name, "lose sample 1")
    executor.start()
    executor.load()
    pending = [run(executor, step) for step in range(3)]

    assert pending[0].result().step == 0
    for each in pending[1:]:
        with pytest.raises(WorkerFailed, match="AcceleratorError: context lost") as failure:
            each.result()
        assert failure.value.is_fatal


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("behaviour", ["refuse load", "cannot be made"])
def test_a_setup_that_the_operator_can_mend_says_so(
    name: str, behaviour: str, start: Start
) -> None:
    executor = start(name, behaviour)

    with pytest.raises(WorkerFailed, match=r"is cut off|are cut off") as failure:
        _start_and_load(executor)

    assert failure.value.is_operator
    assert "CheckpointError" not in failure.value.cause


@pytest.mark.parametrize("name", NAMES)
def test_a_failing_start_call_is_one_line_with_its_class(name: str, start: Start) -> None:
    executor = start(name, "fail load")

    with pytest.raises(WorkerFailed) as failure:
        _start_and_load(executor)

    assert failure.value.cause == "ValueError: no luck in load of rank 0"
    assert not failure.value.is_operator


@pytest.mark.parametrize("name", NAMES)
def test_a_control_method_that_fails_tells_its_caller(name: str, start: Start) -> None:
    executor = start(name)
    executor.start()
    executor.load()

    with pytest.raises(WorkerFailed, match="ValueError: unheard"):
        executor.call_all("unheard", [])

    assert run(executor, 0).result().step == 0


def _start_and_load(executor: Executor) -> None:
    executor.start()
    executor.load()
