from __future__ import annotations

import pytest

from octavo.config.cache import CacheConfig
from octavo.config.parallel import ParallelConfig
from octavo.config.scheduler import SchedulerConfig
from octavo.kit.errors import ConfigError


def scheduler(policy: str = "fcfs", tokens: int = 8) -> SchedulerConfig:
    return SchedulerConfig(
        max_num_batched_tokens=tokens, max_num_seqs=8, max_model_len=16, policy=policy, overlap=True
    )


def test_a_step_has_a_token_for_each_request() -> None:
    assert scheduler().max_rows >= 8
    with pytest.raises(ConfigError, match=r"max_num_batched_tokens=7: must be at least"):
        scheduler(tokens=7)


def test_a_policy_is_known() -> None:
    with pytest.raises(ConfigError, match="scheduling_policy='lifo': must be fcfs or priority"):
        scheduler(policy="lifo")


def test_blocks_are_powers_of_two() -> None:
    with pytest.raises(ConfigError, match="block_size=12: must be a power of two"):
        CacheConfig(block_size=12, num_blocks=1, dtype="float32", prefix_caching=True)


def test_a_worker_is_counted_per_part_and_stage() -> None:
    parallel = ParallelConfig(
        executor="multiproc", device="cpu", threads=1, tensor_parallel_size=2,
        pipeline_parallel_size=3,
    )  # fmt: skip

    assert parallel.world_size == 6
