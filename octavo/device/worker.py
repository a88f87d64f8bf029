"""Worker: one rank's model, memory and rows; execute and sample by delegation."""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, cast

import torch
from torch import Tensor
from tqdm import tqdm

from octavo.config.octavo import OctavoConfig
from octavo.contracts.kv import KVCacheConfig, KVCacheSpec, MemoryReport
from octavo.contracts.runner import ModelRunnerOutput
from octavo.contracts.schedule import SampleInput, SchedulerOutput
from octavo.contracts.worker import Unfinished, WorkerAPI, WorkerInit, finished
from octavo.device.batch import DeviceBatch, StepRows, rows_shape
from octavo.device.execute.inputs import InputBuilder
from octavo.device.execute.runner import ModelRunner
from octavo.device.execute.warmup import warm_up_plans
from octavo.device.graphs import CudaGraphs, Graphs, NoGraphs
from octavo.device.loading.loader import load_model
from octavo.device.memory import KVCaches, Memory, measure
from octavo.device.models.base import CausalModel
from octavo.device.sample.direct import DirectDraw
from octavo.device.sample.output import TokenDrawer
from octavo.device.sample.penalties import Penalizer
from octavo.device.sample.sampler import Sampler
from octavo.device.sample.state import SamplingState
from octavo.kit.errors import NotFound

_log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
"""Called with bytes read so far, and bytes in all."""


class LoadedModel(CausalModel, Protocol):
    """A model whose tensors can be counted, as those of every torch module can."""

    def parameters(self) -> Iterator[Tensor]:
        """Weights."""

    def buffers(self) -> Iterator[Tensor]:
        """Other tensors."""


Load = Callable[[OctavoConfig, torch.device, Progress], LoadedModel]


@dataclass(frozen=True, slots=True)
class _Computed:
    """A step between calls 2 and 3."""

    rows: StepRows
    hidden: Tensor
    start_time: float


@dataclass(frozen=True, slots=True)
class _Ready:
    """What exists after ``allocate``."""

    kv_cache: KVCacheConfig
    batch: DeviceBatch
    runner: ModelRunner
    drawer: TokenDrawer


class Worker:
    """One rank. Calls come in the order that ``WorkerAPI`` gives.

    Invariant: ``_flights`` holds the steps that were executed and not sampled, oldest first.
    """

    def __init__(self, init: WorkerInit, load: Load) -> None:
        self._config = init.config
        self._load = load
        self._device = torch.device(init.config.parallel.device)
        self._memory = Memory(self._device)
        self._flights: deque[_Computed] = deque()
        self._loaded: LoadedModel | None = None
        self._ready: _Ready | None = None

    def load(self) -> None:
        """Build the model and read its weights."""
        torch.set_num_threads(self._config.parallel.threads)
        with _shown_progress(self._config.model.name) as progress:
            self._loaded = self._load(self._config, self._device, progress)

    def kv_cache_specs(self) -> list[KVCacheSpec]:
        """What each attention layer keeps."""
        block_size, kinds = self._config.cache.block_size, self._config.model.layers
        layers = self._model.attention_layers()
        return [
            KVCacheSpec(
                layer=layer,
                kind=kind.kind,
                block_size=block_size,
                bytes_per_block=backend.bytes_per_block(spec, block_size),
                window=kind.window,
            )
            for layer, (kind, (spec, backend)) in enumerate(zip(kinds, layers, strict=True))
        ]

    def measure_memory(self) -> MemoryReport:
        """How much memory is left for KV."""
        weights = chain(self._model.parameters(), self._model.buffers())
        return measure(self._config, weights)

    def allocate(self, kv_cache: KVCacheConfig) -> None:
        """Allocate KV, rows and step buffers; nothing grows after this."""
        limits, vocab_size = self._config.scheduler, self._config.model.vocab_size
        memory, model = self._memory, self._model
        caches = KVCaches.allocate(kv_cache, model.attention_layers(), memory)
        token_ids = memory.tensor("rows", rows_shape(limits), torch.int32)
        batch = DeviceBatch(limits, kv_cache.groups, token_ids)
        inputs = InputBuilder(batch, limits, memory)
        state = SamplingState(limits.max_rows, vocab_size, self._device)
        penalizer = Penalizer(memory.tensor("sample", (vocab_size,), torch.float32))
        direct, graphs = self._beside_host(batch, state)
        memory.close()
        self._ready = _Ready(
            kv_cache,
            batch,
            ModelRunner(
                batch,
                inputs,
                caches,
                graphs,
                stage_draw=direct.stage if direct is not None else _never,
            ),
            TokenDrawer(
                batch,
                state,
                Sampler(batch, state, penalizer),
                model.compute_logits,
                direct=direct,
            ),
        )

    def _beside_host(
        self, batch: DeviceBatch, state: SamplingState
    ) -> tuple[DirectDraw | None, Graphs]:
        """What a device has that computes beside its host: draws without waiting, and graphs."""
        model, limits = self._model, self._config.scheduler
        if self._device.type != "cuda":
            return None, NoGraphs(model.forward)
        direct = DirectDraw(batch, state, self._memory, limits.max_num_seqs)

        def draw(hidden: Tensor) -> None:
            direct.launch(model.compute_logits(hidden))

        graphs = CudaGraphs(model.forward, draw, limits.max_num_seqs, limits.max_model_len)
        return direct, graphs

    def warm_up(self) -> None:
        """Run ordinary plans of made-up requests, then forget them."""
        for plan in warm_up_plans(self._config, self._parts.kv_cache):
            self.execute(plan)
            finished(self.sample(SampleInput(plan.step)))
        self.reset()

    @torch.inference_mode()
    def execute(self, plan: SchedulerOutput) -> None:
        """Call 2: apply the plan to the rows and run the forward pass."""
        start_time = time.perf_counter()
        rows, hidden = self._parts.runner.execute(plan)
        self._flights.append(_Computed(rows, hidden, start_time))

    @torch.inference_mode()
    def sample(self, sample: SampleInput) -> ModelRunnerOutput | Unfinished:
        """Call 3: draw the tokens of the oldest plan not yet sampled."""
        flight = self._flights.popleft()
        assert flight.rows.step == sample.step, f"step {sample.step} is not the oldest"
        return self._parts.drawer.sample(flight.rows, flight.hidden, flight.start_time)

    def reset(self) -> None:
        """Forget every row and every plan in flight."""
        self._flights.clear()
        self._parts.batch.reset()

    def call(self, name: str, args: list[int | str | bool]) -> int | str | bool | None:
        """Run a control method by name: ``num_used_rows`` or ``allocated_bytes``.

        Raises:
            NotFound: there is no such method, or it takes no arguments.
        """
        methods = {
            "num_used_rows": lambda: self._parts.batch.num_used_rows,
            "allocated_bytes": lambda: self._memory.allocated_bytes,
        }
        if name not in methods or args:
            raise NotFound(f"worker call {name}({args}): must be one of {sorted(methods)}, bare")
        return methods[name]()

    def close(self) -> None:
        """Release model, rows and KV."""
        self._flights.clear()
        self._loaded = self._ready = None

    @property
    def _model(self) -> LoadedModel:
        assert self._loaded is not None, "load comes first"
        return self._loaded

    @property
    def _parts(self) -> _Ready:
        assert self._ready is not None, "allocate comes first"
        return self._ready


def make_worker(init: WorkerInit) -> WorkerAPI:
    """Return a worker of the real model. What executors are given by name."""
    load = cast(Load, load_model)  # the loader promises a module, and its models are causal
    return Worker(init, load)


def _never(_step: StepRows) -> bool:
    """No step's tokens are drawn with its forward pass."""
    return False


@contextmanager
def _shown_progress(name: str) -> Iterator[Progress]:
    """Show a bar on a terminal, else one line at the start and one at the end."""
    start = time.perf_counter()
    bar = tqdm(
        total=0, desc=f"loading {name}", unit="B", unit_scale=True, disable=not sys.stderr.isatty()
    )
    if bar.disable:
        _log.info("loading %s", name)

    def show(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)

    with bar:
        yield show
    _log.info("loaded %s in %.1f s", name, time.perf_counter() - start)
