"""A whole engine over a fake worker, and what each request should get."""

from __future__ import annotations

from dataclasses import dataclass, field

from octavo.config.octavo import OctavoConfig
from octavo.contracts.output import EngineOutput, EngineOutputs, FinishReason
from octavo.contracts.request import EngineRequest
from octavo.contracts.sampling import TokenSampling
from octavo.engine.boot import boot
from octavo.engine.core import EngineCore
from octavo.engine.executor.base import WorkerFailed
from octavo.engine.main import Stepper
from octavo.engine.overlap import OverlappedCore
from octavo.testing.fake_tokens import answer_alone
from octavo.testing.fake_worker import FakeWorker, Faults
from octavo.testing.local_executor import LocalExecutor


@dataclass
class Heard:
    """What an API process knows of one request."""

    token_ids: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    outputs: list[EngineOutput] = field(default_factory=list)


class Engine:
    """Drives an engine step by step and listens to it."""

    def __init__(
        self,
        config: OctavoConfig,
        faults: Faults | None = None,
        worker: type[FakeWorker] = FakeWorker,
    ) -> None:
        self.config = config
        self.num_failures = 0
        self.worker: FakeWorker

        def make(init):
            self.worker = worker(init, faults)
            return self.worker

        executor = LocalExecutor(config, make)
        self.core = EngineCore(config, boot(config, executor).kv_cache, executor)
        self.stepper: Stepper = OverlappedCore(self.core) if config.scheduler.overlap else self.core
        self.heard: dict[str, Heard] = {}
        self.num_steps = 0
        self.last: EngineOutputs | None = None

    def add(self, request: EngineRequest) -> None:
        self.heard[request.request_id] = Heard()
        self.core.add(request)

    def abort(self, *request_ids: str) -> None:
        self.core.abort(request_ids)

    def step(self) -> None:
        self.num_steps += 1
        try:
            outputs = self.stepper.step()
        except WorkerFailed as failure:
            self.num_failures += 1
            self.stepper.recover(failure)
            outputs = self.core.updater.flush()
        self.last = outputs
        for output in outputs.outputs if outputs else []:
            heard = self.heard[output.request_id]
            assert heard.finish_reason is None, "nothing is said after the end"
            heard.token_ids += output.new_token_ids
            heard.finish_reason = output.finish_reason
            heard.outputs.append(output)

    def run(self, max_steps: int = 10_000) -> None:
        while self.stepper.has_work:
            assert self.num_steps < max_steps, "the engine does not come to an end"
            self.step()

    def expected(self, request: EngineRequest) -> tuple[list[int], FinishReason]:
        return answer_alone(
            request,
            vocab_size=self.config.model.vocab_size,
            max_model_len=self.config.scheduler.max_model_len,
        )

    def assert_answers(self, *requests: EngineRequest) -> None:
        for request in requests:
            heard = self.heard[request.request_id]
            assert (heard.token_ids, heard.finish_reason) == self.expected(request)

    def assert_everything_is_free(self) -> None:
        core, config = self.core, self.config
        assert not core.table.running
        assert not core.table.waiting
        assert core.kv.num_free_blocks == config.cache.num_blocks - 1


def request(
    request_id: str,
    prompt: list[int] | range,
    max_tokens: int = 8,
    *,
    arrival_time: float = 0.0,
    priority: int = 0,
    cache_salt: str = "",
    **sampling,
) -> EngineRequest:
    return EngineRequest(
        request_id=request_id,
        prompt_token_ids=list(prompt),
        sampling=TokenSampling(max_tokens=max_tokens, **sampling),
        arrival_time=arrival_time,
        priority=priority,
        cache_salt=cache_salt,
    )
