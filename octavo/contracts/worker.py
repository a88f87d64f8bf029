"""The only method surface between the engine and its workers."""

from __future__ import annotations

from typing import Protocol

import msgspec

from octavo.config.octavo import OctavoConfig
from octavo.contracts.codec import Message
from octavo.contracts.kv import KVCacheConfig, KVCacheSpec, MemoryReport
from octavo.contracts.runner import ModelRunnerOutput, WorkerError
from octavo.contracts.schedule import SampleInput, SchedulerOutput


class WorkerInit(Message, frozen=True):
    """Who a worker is, and what it serves."""

    config: OctavoConfig
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1


class Unfinished(Protocol):
    """Tokens that a device still computes."""

    def result(self) -> ModelRunnerOutput:
        """Wait for them, in any thread."""


class WorkerAPI(Protocol):
    """A worker, as its executor sees it.

    Calls come from one thread, in this order: load, kv_cache_specs, measure_memory, allocate,
    warm_up; then execute and sample in turns.
    """

    def load(self) -> None:
        """Build the model and read its weights."""

    def kv_cache_specs(self) -> list[KVCacheSpec]:
        """What each attention layer keeps."""

    def measure_memory(self) -> MemoryReport:
        """How much memory is left for KV."""

    def allocate(self, kv_cache: KVCacheConfig) -> None:
        """Allocate KV, rows and step buffers; nothing grows after this."""

    def warm_up(self) -> None:
        """Run ordinary plans of made-up requests."""

    def execute(self, plan: SchedulerOutput) -> None:
        """Call 2: apply the plan to the rows and run the forward pass."""

    def sample(self, sample: SampleInput) -> ModelRunnerOutput | Unfinished:
        """Call 3: draw the tokens of the oldest plan not yet sampled; they may come later."""

    def reset(self) -> None:
        """Forget every row and every plan in flight."""

    def call(self, name: str, args: list[int | str | bool]) -> int | str | bool | None:
        """Run a control method by name."""

    def close(self) -> None:
        """Release the device."""


def finished(sampled: ModelRunnerOutput | Unfinished) -> ModelRunnerOutput:
    """Wait for the tokens, where they are not there yet."""
    return sampled if isinstance(sampled, ModelRunnerOutput) else sampled.result()


class LifecycleCall(Message, frozen=True):
    """Call a method of ``WorkerAPI`` that starts, resets or closes; ``CallDone`` answers."""

    name: str
    kv_cache: KVCacheConfig | None = None
    """The argument of ``allocate``."""


class ControlCall(Message, frozen=True):
    """Call ``WorkerAPI.call``; ``CallDone`` answers."""

    name: str
    args: list[int | str | bool] = msgspec.field(default_factory=list)


class CallDone(Message, frozen=True):
    """A rank has done a lifecycle or control call; at most one field says what it returned."""

    specs: list[KVCacheSpec] = msgspec.field(default_factory=list)
    memory: MemoryReport | None = None
    value: int | str | bool | None = None


WorkerCall = SchedulerOutput | SampleInput | LifecycleCall | ControlCall
WorkerReply = ModelRunnerOutput | WorkerError | CallDone
