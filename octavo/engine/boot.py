"""Check the memory plan, start workers, hand out KV blocks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from octavo.config.octavo import OctavoConfig
from octavo.contracts.kv import KVCacheConfig
from octavo.engine.executor.base import Executor
from octavo.engine.kv.plan import kv_bytes, plan_kv_cache
from octavo.kit.errors import ConfigError


@dataclass(slots=True)
class Booted:
    """What a start has decided, and how long its phases took."""

    kv_cache: KVCacheConfig
    phases: list[tuple[str, float]] = field(default_factory=list)
    """Name and duration. [s]"""


def boot(
    config: OctavoConfig, executor: Executor, clock: Callable[[], float] = time.monotonic
) -> Booted:
    """Bring the workers up to the point where they take plans.

    Raises:
        OperatorError: the setup cannot work.
        WorkerFailed: a worker could not do its part.
    """
    times = [clock()]
    executor.start()
    times.append(clock())
    executor.load()
    times.append(clock())
    kv_cache = plan_kv_cache(
        executor.kv_cache_specs(), config.cache, max_model_len=config.scheduler.max_model_len
    )
    _check_memory(kv_cache, executor.measure_memory().available_for_kv_bytes)
    times.append(clock())
    executor.allocate(kv_cache)
    times.append(clock())
    names = ("import worker", "load weights", "plan KV cache", "allocate and warm up")
    spans = [end - start for start, end in pairwise(times)]
    return Booted(kv_cache, list(zip(names, spans, strict=True)))


def _check_memory(kv_cache: KVCacheConfig, available_bytes: int) -> None:
    needed = kv_bytes(kv_cache)
    if needed <= available_bytes:
        return
    raise ConfigError(
        "num_blocks",
        kv_cache.num_blocks,
        want=f"the KV cache needs {needed} bytes, and {available_bytes} are left on the device",
        fix=f"Use --kv-cache-memory-bytes {max(available_bytes, 0)} or less.",
    )
