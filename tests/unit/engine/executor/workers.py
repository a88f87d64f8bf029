"""Workers whose behaviour a test chooses by the model's path."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import numpy as np

from octavo.config.octavo import OctavoConfig
from octavo.contracts.kv import KVCacheConfig, KVCacheSpec, MemoryReport
from octavo.contracts.runner import ModelRunnerOutput
from octavo.contracts.schedule import SampleInput, SchedulerOutput
from octavo.contracts.worker import WorkerInit
from octavo.kit.errors import CheckpointError
from octavo.testing.fake_config import fake_config


def config_for(behaviour: str = "", *, world_size: int = 1) -> OctavoConfig:
    """A configuration whose model path tells ``ScriptedWorker`` what to do."""
    config = fake_config()
    return replace(
        config,
        model=replace(config.model, path=behaviour),
        parallel=replace(config.parallel, tensor_parallel_size=world_size),
        log_level="error",
    )


def make_worker(init: WorkerInit) -> ScriptedWorker:
    if init.config.model.path == "cannot be made":
        raise CheckpointError("model.bin is cut off")
    return ScriptedWorker(init)


class ScriptedWorker:
    """Answers row numbers; fails, dies or hangs where the behaviour names a call."""

    def __init__(self, init: WorkerInit) -> None:
        self._rank = init.rank
        self._behaviour = init.config.model.path
        self._plans: list[SchedulerOutput] = []
        self._num_resets = 0
        self._marks = 0

    def load(self) -> None:
        self._act("load")

    def kv_cache_specs(self) -> list[KVCacheSpec]:
        return [KVCacheSpec(layer=self._rank, kind="full", block_size=16, bytes_per_block=64)]

    def measure_memory(self) -> MemoryReport:
        return MemoryReport(
            total_bytes=1000, weights_bytes=1, workspace_bytes=1,
            available_for_kv_bytes=500 + self._rank,
        )  # fmt: skip

    def allocate(self, kv_cache: KVCacheConfig) -> None:
        self._marks += kv_cache.num_blocks

    def warm_up(self) -> None:
        self._marks += 1000

    def execute(self, plan: SchedulerOutput) -> None:
        self._act("execute", plan.step)
        self._plans.append(plan)

    def sample(self, sample: SampleInput) -> ModelRunnerOutput:
        self._act("sample", sample.step)
        plan = self._plans.pop(0)
        assert plan.step == sample.step
        rows = plan.rows.reshape(-1, 1)
        ones = np.ones(len(rows), np.int32)
        return ModelRunnerOutput(
            step=plan.step, token_ids=rows, num_tokens=ones, row_status=0 * ones
        )

    def reset(self) -> None:
        self._plans.clear()
        self._num_resets += 1
        self._behaviour = ""

    def call(self, name: str, args: list[int | str | bool]) -> int | str | bool | None:
        match name:
            case "marks":
                return self._marks
            case "pid":
                return os.getpid()
            case "echo":
                return args[0]
        raise ValueError(name)

    def close(self) -> None:
        self._act("close")

    def _act(self, call: str, step: int = 0) -> None:
        match self._behaviour.split():
            case [verb, place, *at] if place == call and (not at or int(at[0]) == step):
                pass
            case _:
                return
        match verb:
            case "fail":
                raise ValueError(f"no luck\nin {call} of rank {self._rank}")
            case "refuse":
                raise CheckpointError("weights are cut off")
            case "die":
                os.kill(os.getpid(), 9)
            case "hang":
                time.sleep(60)
            case "lose":
                raise AcceleratorError("context lost")


class AcceleratorError(RuntimeError):
    """Named as torch names the loss of a device."""
