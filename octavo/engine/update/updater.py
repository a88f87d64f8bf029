"""Updater.update(): append tokens, finish, publish blocks."""

from __future__ import annotations

import time
from collections.abc import Callable

from octavo.contracts.output import EngineOutput, EngineOutputs, FinishReason, RequestError
from octavo.contracts.runner import ModelRunnerOutput, RowStatus
from octavo.engine.kv.manager import KVCacheManager
from octavo.engine.request import InFlight, Request, RequestStatus
from octavo.engine.request_table import RequestTable
from octavo.engine.update.outputs import (
    NO_TOKEN,
    ROW_ERRORS,
    error_output,
    logprobs_by_place,
    prompt_logprobs_by_place,
    token_output,
)
from octavo.engine.update.stats import StatsTaker
from octavo.engine.update.stop import finish_reason


class Updater:
    """Applies what the device produced, and ends requests.

    A request that ends while a later plan names it keeps row and blocks until that plan is
    updated; what that plan computed for it is dropped.
    """

    def __init__(
        self,
        table: RequestTable,
        kv: KVCacheManager,
        *,
        engine: int = 0,
        generation: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table = table
        self._kv = kv
        self._engine = engine
        self._generation = generation
        self._clock = clock
        self._stats = StatsTaker(table, kv)
        self._notices: list[EngineOutput] = []

    def update(self, flight: InFlight, sampled: ModelRunnerOutput) -> EngineOutputs:
        """Apply one step's tokens; return what there is to tell, notices since the last included.

        The log-probabilities are few; the loop over all rows is the hot path.
        """
        logprobs = logprobs_by_place(flight, sampled)
        prompt_logprobs = prompt_logprobs_by_place(flight, sampled)
        told = logprobs.keys() | prompt_logprobs.keys()
        outputs, self._notices = self._notices, []
        finished = RequestStatus.FINISHED
        rows = zip(
            flight.requests,
            flight.num_scheduled_tokens,
            sampled.token_ids[:, 0].tolist(),
            sampled.num_tokens.tolist(),
            sampled.row_status.tolist(),
            strict=True,
        )
        for place, (request, num_scheduled, token_id, num_new, row_status) in enumerate(rows):
            request.num_in_flight -= 1
            if request.status is finished:
                self._let_go(request)
                continue
            if row_status:
                self._fail(request, ROW_ERRORS[RowStatus(row_status)], outputs)
                continue
            request.num_confirmed_tokens += num_scheduled
            if request.num_confirmed_tokens >= request.publish_at:
                self._kv.publish(request)
            reason = None
            if num_new:
                request.token_ids.append(token_id)
                reason = finish_reason(request, token_id)
            elif request.num_tokens > len(request.token_ids) and not request.num_in_flight:
                self._fail(request, NO_TOKEN, outputs)
                continue
            if reason is None and num_new and request.is_announced and place not in told:
                outputs.append(EngineOutput(request.request_id, [token_id]))
                continue
            if num_new or place in told:
                new = [token_id] if num_new else []
                pieces = (logprobs.get(place), prompt_logprobs.get(place))
                outputs.append(token_output(request, new, reason, *pieces))
            if reason is not None:
                self._end(request)
        return self._pack(outputs, sum(flight.num_scheduled_tokens))

    def flush(self) -> EngineOutputs | None:
        """Return the notices that no step has carried; None when there are none."""
        return self.collect() if self._notices else None

    def collect(self) -> EngineOutputs:
        """Return the notices that no step has carried, and the state."""
        outputs, self._notices = self._notices, []
        return self._pack(outputs, 0)

    def abort(self, request: Request) -> None:
        """End a request at its client's wish."""
        self._notices.append(token_output(request, [], FinishReason.ABORT))
        self._end(request)

    def refuse(self, request_id: str, error: RequestError) -> None:
        """Answer a request that cannot be started at all."""
        self._notices.append(error_output(request_id, error))

    def fail(self, request: Request, error: RequestError) -> None:
        """End a request that cannot go on."""
        self._fail(request, error, self._notices)

    def drop(self, flight: InFlight) -> None:
        """Forget a plan whose tokens will never come."""
        for request in flight.requests:
            request.num_in_flight -= 1
            request.num_tokens = len(request.token_ids)
            if request.status is RequestStatus.FINISHED:
                self._let_go(request)

    def _fail(self, request: Request, error: RequestError, outputs: list[EngineOutput]) -> None:
        outputs.append(error_output(request.request_id, error))
        self._end(request)

    def _end(self, request: Request) -> None:
        self._table.finish(request)
        self._let_go(request)

    def _let_go(self, request: Request) -> None:
        """Free the row and blocks of a request that has ended, once no plan names it."""
        if request.row >= 0 and not request.num_in_flight:
            self._kv.release(request)
            self._table.leave_row(request)

    def _pack(self, outputs: list[EngineOutput], num_scheduled_tokens: int) -> EngineOutputs:
        return EngineOutputs(
            engine=self._engine,
            generation=self._generation,
            outputs=outputs,
            stats=self._stats.take(num_scheduled_tokens),
            timestamp=self._clock(),
        )
