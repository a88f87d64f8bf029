"""EngineCore.step(): the four calls and nothing else."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable

from octavo.config.octavo import OctavoConfig
from octavo.contracts.kv import KVCacheConfig
from octavo.contracts.output import EngineOutputs, RequestError
from octavo.contracts.request import EngineRequest
from octavo.contracts.schedule import SampleInput
from octavo.engine.executor.base import Executor, Pending, WorkerFailed
from octavo.engine.kv.manager import KVCacheManager
from octavo.engine.request import InFlight, Request
from octavo.engine.request_table import RequestTable
from octavo.engine.schedule.budget import short_limit
from octavo.engine.schedule.queue import WaitingQueue
from octavo.engine.schedule.scheduler import Scheduler
from octavo.engine.update.updater import Updater

log = logging.getLogger(__name__)


class EngineCore:
    """Requests in, one batch at a time through the device, outputs out.

    ``step`` does one batch from plan to tokens. ``overlap`` composes the same calls with more
    than one batch in flight; the batches in flight are known here, so that ``recover`` can drop
    them.
    """

    def __init__(
        self,
        config: OctavoConfig,
        kv_cache: KVCacheConfig,
        executor: Executor,
        *,
        clock: Callable[[], float] = time.monotonic,
        identity: tuple[int, int] = (0, 0),
    ) -> None:
        queue = WaitingQueue(short_limit=short_limit(config.scheduler))
        engine, generation = identity
        self._max_model_len = config.scheduler.max_model_len
        self._num_added = 0
        self.executor = executor
        self.kv = KVCacheManager(
            kv_cache, model=config.model.path, prefix_caching=config.cache.prefix_caching
        )
        self.table = RequestTable(queue, max_rows=config.scheduler.max_rows)
        self.scheduler = Scheduler(config.scheduler, queue, self.table, self.kv, clock=clock)
        self.updater = Updater(
            self.table, self.kv, engine=engine, generation=generation, clock=clock
        )
        self.in_flight: deque[InFlight] = deque()
        """Plans that were sent and are not updated, oldest first."""

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        return bool(self.in_flight) or len(self.table) > 0

    def add(self, message: EngineRequest) -> None:
        """Let a request wait; one that cannot run is answered with the next outputs."""
        if error := self._reason_to_refuse(message):
            self.updater.refuse(message.request_id, RequestError(error, status=400))
            return
        if self.table.find(message.request_id):
            log.error("request %s was sent twice; the second is ignored", message.request_id)
            return
        self._num_added += 1
        self.table.add(
            Request.of(message, sequence=self._num_added, max_model_len=self._max_model_len)
        )

    def abort(self, request_ids: Iterable[str]) -> None:
        """End requests at any moment. Unknown ids are ignored: they have just finished."""
        for request_id in request_ids:
            if request := self.table.find(request_id):
                self.updater.abort(request)

    def step(self) -> EngineOutputs | None:
        """Take one batch from plan to tokens; None when there was nothing to run."""
        flight = self.begin()
        if flight is None:
            return self.updater.flush()
        return self.finish(flight, self.draw(flight))

    def begin(self) -> InFlight | None:
        """Calls 1 and 2: a plan and its requests, sent to the device."""
        flight = self.scheduler.schedule()
        if flight is not None:
            self.in_flight.append(flight)
            self.executor.execute(flight.plan)
        return flight

    def draw(self, flight: InFlight) -> Pending:
        """Call 3; does not wait."""
        return self.executor.sample(SampleInput(flight.plan.step))

    def finish(self, flight: InFlight, pending: Pending) -> EngineOutputs:
        """Call 4; the only wait."""
        sampled = pending.result()
        self.in_flight.remove(flight)
        return self.updater.update(flight, sampled)

    def recover(self, failure: WorkerFailed) -> None:
        """After a step that failed while the device is sound: run its requests again, in halves.

        Plans in flight are dropped, every row ends, nothing is published. The oldest plan is the
        one that failed. If it held one request, that is the one that breaks it, and it ends. A
        request that had ended by then may have broken it as well, so it counts as company.

        Raises:
            WorkerFailed: the worker does not answer any more.
        """
        log.error("a step failed and its requests run again: %s", failure.cause)
        company = self.in_flight[0].requests
        failed = [request for request in company if self._is_live(request)]
        self.executor.reset()
        while self.in_flight:
            self.updater.drop(self.in_flight.popleft())
        for request in list(self.table.running):
            self.scheduler.preempt(request)
        self.table.forget_rows()
        if len(company) == 1 and failed:
            cause = f"the step that ran this request alone failed: {failure.cause}"
            self.updater.fail(failed[0], RequestError(cause))
        else:
            self.scheduler.suspect(failed)

    def _is_live(self, request: Request) -> bool:
        return self.table.find(request.request_id) is request

    def _reason_to_refuse(self, message: EngineRequest) -> str | None:
        num_tokens = len(message.prompt_token_ids) + len(message.output_token_ids)
        if not message.prompt_token_ids:
            return "the prompt has no tokens; at least one is needed."
        if message.sampling.max_tokens < 1:
            return f"max_tokens={message.sampling.max_tokens}: must be at least 1."
        if num_tokens >= self._max_model_len:
            return (
                f"the request has {num_tokens} tokens before the first new one, and the model's "
                f"context holds {self._max_model_len}, the new one included."
            )
        return None
