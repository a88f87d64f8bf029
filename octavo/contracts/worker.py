"""The only method surface between the engine and its workers."""

from __future__ import annotations

from typing import Protocol

from octavo.config.octavo import OctavoConfig
from octavo.contracts.codec import Message
from octavo.contracts.kv import KVCacheConfig, KVCacheSpec, MemoryReport
from octavo.contracts.runner import ModelRunnerOutput
from octavo.contracts.schedule import SampleInput, SchedulerOutput


class WorkerInit(Message, frozen=True):
    """Who a worker is, and what it serves."""

    config: OctavoConfig
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1


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

    def sample(self, sample: SampleInput) -> ModelRunnerOutput:
        """Call 3: draw the tokens of the oldest plan not yet sampled."""

    def reset(self) -> None:
        """Forget every row and every plan in flight."""

    def call(self, name: str, args: list[int | str | bool]) -> int | str | bool | None:
        """Run a control method by name."""

    def close(self) -> None:
        """Release the device."""
