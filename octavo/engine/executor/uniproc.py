"""One worker as a guest in this process: its own thread, fed by a queue.

Numeric kernels release the interpreter lock, so the engine schedules while the worker computes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from importlib import import_module
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

from octavo.config.octavo import OctavoConfig
from octavo.contracts.kv import KVCacheConfig, KVCacheSpec, MemoryReport
from octavo.contracts.runner import ModelRunnerOutput
from octavo.contracts.schedule import SampleInput, SchedulerOutput
from octavo.contracts.worker import Unfinished, WorkerAPI, WorkerInit, finished
from octavo.engine.executor.base import WorkerFailed
from octavo.kit.errors import (
    ConfigError,
    OperatorError,
    can_operator_mend,
    is_device_lost,
    one_line,
)

_CLOSE_TIMEOUT_S = 10.0

logger = logging.getLogger(__name__)

T = TypeVar("T")
WorkerMaker = Callable[[WorkerInit], WorkerAPI]


class UniprocExecutor:
    """Calls go to the worker thread in order; ``execute`` and ``sample`` do not wait for it.

    The worker's code is imported by its thread from the start, beside whatever the engine does.
    """

    def __init__(self, config: OctavoConfig, worker: str | WorkerMaker) -> None:
        if config.parallel.world_size != 1:
            raise ConfigError(
                "executor",
                "uniproc",
                want=f"runs one worker, but {config.parallel.world_size} ranks are asked for",
                fix="Use --executor multiproc.",
            )
        self._guest = _Guest()
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=_work, args=(self._calls,), name="worker.0", daemon=True)
        self._thread.start()
        self._is_closed = False
        self._made = self._enqueue(lambda: self._guest.make(worker, WorkerInit(config)))

    def start(self) -> None:
        _wait(self._made)

    def load(self) -> None:
        self._call(self._guest.worker.load)

    def kv_cache_specs(self) -> list[KVCacheSpec]:
        return self._call(self._guest.worker.kv_cache_specs)

    def measure_memory(self) -> MemoryReport:
        return self._call(self._guest.worker.measure_memory)

    def allocate(self, kv_cache: KVCacheConfig) -> None:
        self._call(lambda: self._guest.worker.allocate(kv_cache))
        self._call(self._guest.worker.warm_up)

    def execute(self, plan: SchedulerOutput) -> None:
        self._calls.put(lambda: self._guest.execute(plan))

    def sample(self, sample: SampleInput) -> _Sampled:
        return _Sampled(self._enqueue(lambda: self._guest.sample(sample)))

    def reset(self) -> None:
        self._call(self._guest.reset)

    def call_all(self, name: str, args: list[int | str | bool]) -> list[int | str | bool | None]:
        return [self._call(lambda: self._guest.worker.call(name, args))]

    def check(self) -> None:
        if not self._thread.is_alive() and not self._is_closed:
            raise WorkerFailed("the worker thread has ended", is_fatal=True)

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._calls.put(self._guest.close)
        self._calls.put(None)
        self._thread.join(_CLOSE_TIMEOUT_S)
        if self._thread.is_alive():
            logger.warning("worker still computes after %.0f s; left behind", _CLOSE_TIMEOUT_S)

    def _call(self, call: Callable[[], T]) -> T:
        return _wait(self._enqueue(call))

    def _enqueue(self, call: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 (process entry of the guest)
                future.set_exception(_failure(error))

        self._calls.put(run)
        return future


class _Sampled:
    """Tokens that the worker thread has been asked for."""

    def __init__(self, future: Future[ModelRunnerOutput | Unfinished]) -> None:
        self._future = future

    def result(self) -> ModelRunnerOutput:
        sampled = self._future.result()
        try:
            return finished(sampled)
        except BaseException as error:
            _log(error)
            raise _failure(error) from error


class _Guest:
    """The worker and its state of health. Used from the worker thread alone.

    Invariant: after a failed step every further one fails with the same cause, until ``reset``:
    its rows may be wrong.
    """

    worker: WorkerAPI

    def __init__(self) -> None:
        self._broken: BaseException | None = None
        self._is_made = False

    def make(self, worker: str | WorkerMaker, init: WorkerInit) -> None:
        self.worker = _resolve(worker)(init)
        self._is_made = True

    def execute(self, plan: SchedulerOutput) -> None:
        if self._broken is not None:
            return
        try:
            self.worker.execute(plan)
        except BaseException as error:  # noqa: BLE001 (told by the sample call of this step)
            _log(error)
            self._broken = error

    def sample(self, sample: SampleInput) -> ModelRunnerOutput | Unfinished:
        if self._broken is None:
            try:
                return self.worker.sample(sample)
            except BaseException as error:
                _log(error)
                self._broken = error
                raise
        raise self._broken

    def reset(self) -> None:
        self.worker.reset()
        self._broken = None

    def close(self) -> None:
        if not self._is_made:
            return
        try:
            self.worker.close()
        except Exception:
            logger.exception("worker did not close")


def _work(calls: SimpleQueue[Callable[[], None] | None]) -> None:
    while call := calls.get():
        call()


def _resolve(worker: str | WorkerMaker) -> WorkerMaker:
    if not isinstance(worker, str):
        return worker
    module, _, name = worker.partition(":")
    maker: WorkerMaker = vars(import_module(module))[name]
    return maker


def _wait(future: Future[T]) -> T:
    """Return what a start or control call returned."""
    try:
        return future.result()
    except WorkerFailed as failure:
        if failure.__cause__ is not None:
            _log(failure.__cause__)
        raise


def _failure(error: BaseException) -> WorkerFailed:
    failure = WorkerFailed(
        one_line(error),
        is_fatal=is_device_lost(error) or not isinstance(error, Exception),
        is_operator=can_operator_mend(error),
    )
    failure.__cause__ = error
    return failure


def _log(error: BaseException) -> None:
    if not isinstance(error, OperatorError):
        logger.error("worker failed", exc_info=error)


EXECUTOR = UniprocExecutor
