"""How many processes and devices, and how the engine reaches them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelConfig:
    """Sizes of the parallel groups."""

    executor: str
    """Names an executor in ``engine/executor``."""

    device: str
    """Platform name: cpu or cuda."""

    threads: int
    """Threads a CPU worker computes with."""

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1

    @property
    def world_size(self) -> int:
        return self.tensor_parallel_size * self.pipeline_parallel_size
