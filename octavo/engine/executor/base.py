"""The executor, as the engine sees it: one model, whatever the number of workers."""

from __future__ import annotations

from typing import Protocol

from octavo.contracts.kv import KVCacheConfig, KVCacheSpec, MemoryReport
from octavo.contracts.runner import ModelRunnerOutput
from octavo.contracts.schedule import SampleInput, SchedulerOutput


class Pending(Protocol):
    """Tokens that are being computed."""

    def result(self) -> ModelRunnerOutput:
        """Wait for them.

        Raises:
            WorkerFailed: the step could not be done; the error says whether the worker goes on.
        """


class WorkerFailed(Exception):
    """A worker could not do a call. ``is_fatal`` when the worker is lost, too."""

    def __init__(self, cause: str, *, is_fatal: bool, is_operator: bool = False) -> None:
        super().__init__(cause)
        self.cause = cause
        self.is_fatal = is_fatal
        self.is_operator = is_operator
        """The setup is wrong; the operator can mend it."""


class Executor(Protocol):
    """Five start calls in order, then ``execute`` and ``sample`` in turns.

    ``EXECUTOR`` of a module in this package is a class built as ``EXECUTOR(config, worker)``:
    an ``OctavoConfig`` and where workers come from, either ``"module:callable"`` or a callable,
    ``WorkerInit -> WorkerAPI``.
    """

    def start(self) -> None:
        """Wait until the workers, which construction has started, have imported their code."""

    def load(self) -> None:
        """Load weights."""

    def kv_cache_specs(self) -> list[KVCacheSpec]:
        """What each attention layer keeps."""

    def measure_memory(self) -> MemoryReport:
        """How much memory is left for KV; the least of all ranks."""

    def allocate(self, kv_cache: KVCacheConfig) -> None:
        """Allocate KV, rows and buffers, and warm up. The executor is ready after this."""

    def execute(self, plan: SchedulerOutput) -> None:
        """Call 2. Returns at once."""

    def sample(self, sample: SampleInput) -> Pending:
        """Call 3. Returns at once."""

    def reset(self) -> None:
        """Forget every row and every plan in flight."""

    def call_all(self, name: str, args: list[int | str | bool]) -> list[int | str | bool | None]:
        """Run a control method on every rank."""

    def check(self) -> None:
        """Raise ``WorkerFailed`` when a rank has ended; cheap enough for every idle wake-up."""

    def close(self) -> None:
        """End the workers; idempotent."""
