"""An executor that runs its worker in the caller's thread, as late as it can."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from octavo.config.octavo import OctavoConfig
from octavo.contracts.kv import KVCacheConfig, KVCacheSpec, MemoryReport
from octavo.contracts.runner import ModelRunnerOutput
from octavo.contracts.schedule import SampleInput, SchedulerOutput
from octavo.contracts.worker import WorkerAPI, WorkerInit, finished
from octavo.engine.executor.base import WorkerFailed
from octavo.testing.fake_worker import FakeFault


@dataclass(slots=True)
class _Later:
    """Tokens that are computed when they are asked for, after all that was asked before."""

    executor: LocalExecutor
    step: int

    def result(self) -> ModelRunnerOutput:
        return self.executor.run_up_to(self.step)


class LocalExecutor:
    """Satisfies ``Executor``. Nothing runs before a result is asked for.

    The engine therefore plans ahead of the device as far as it ever will, always in the same
    order. Faults of the worker are ``WorkerFailed``; any other exception of it goes through.
    """

    def __init__(self, config: OctavoConfig, worker: Callable[[WorkerInit], WorkerAPI]) -> None:
        self._worker = worker(WorkerInit(config=config))
        self._calls: deque[SchedulerOutput | SampleInput] = deque()

    def start(self) -> None:
        """The worker is an object of this process."""

    def load(self) -> None:
        self._worker.load()

    def kv_cache_specs(self) -> list[KVCacheSpec]:
        return self._worker.kv_cache_specs()

    def measure_memory(self) -> MemoryReport:
        return self._worker.measure_memory()

    def allocate(self, kv_cache: KVCacheConfig) -> None:
        self._worker.allocate(kv_cache)
        self._worker.warm_up()

    def execute(self, plan: SchedulerOutput) -> None:
        self._calls.append(plan)

    def sample(self, sample: SampleInput) -> _Later:
        self._calls.append(sample)
        return _Later(self, sample.step)

    def run_up_to(self, step: int) -> ModelRunnerOutput:
        """Do the calls in order until the tokens of ``step`` are there."""
        while True:
            call = self._calls.popleft()
            try:
                if isinstance(call, SchedulerOutput):
                    self._worker.execute(call)
                    continue
                sampled = finished(self._worker.sample(call))
            except FakeFault as fault:
                self._skip_to_sample_of(call.step)
                raise WorkerFailed(str(fault), is_fatal=False) from fault
            if call.step == step:
                return sampled

    def reset(self) -> None:
        self._calls.clear()
        self._worker.reset()

    def call_all(self, name: str, args: list[int | str | bool]) -> list[int | str | bool | None]:
        return [self._worker.call(name, args)]

    def check(self) -> None:
        """The worker cannot end on its own."""

    def close(self) -> None:
        self._worker.close()

    def _skip_to_sample_of(self, step: int) -> None:
        while self._calls and self._calls[0].step == step:
            self._calls.popleft()
