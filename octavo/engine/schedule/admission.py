"""Waiting to running: tokens, prefix hit, blocks, row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from octavo.engine.kv.manager import KVCacheManager
from octavo.engine.request import Request
from octavo.engine.request_table import RequestTable
from octavo.engine.schedule.budget import StepBudget
from octavo.engine.schedule.builder import StepBuilder
from octavo.engine.schedule.queue import WaitingQueue


class _Verdict(Enum):
    STARTED = 0
    PASSED_OVER = 1
    """It waits for another request's blocks, or for tokens of a long prompt."""
    NOBODY_ELSE = 2
    """It waits for a row or for blocks: who is behind it must not take them."""


class Admission:
    """Starts waiting requests in their order, as long as a step has room.

    A short prompt may pass a long one that waits for tokens, and anyone may pass a request that
    waits for a block which another one is computing. Nobody passes a request that waits for
    blocks or a row.
    """

    def __init__(
        self,
        queue: WaitingQueue,
        table: RequestTable,
        kv: KVCacheManager,
        clock: Callable[[], float],
    ) -> None:
        self._queue = queue
        self._table = table
        self._kv = kv
        self._clock = clock

    def admit(self, candidates: Iterable[Request], budget: StepBudget, step: StepBuilder) -> None:
        """Start those of ``candidates``, which are waiting and in order, that fit."""
        started: list[Request] = []
        shorts_to_come = self._queue.num_short
        is_long_blocked = False
        for request in candidates:
            if not budget.tokens or not budget.requests or not self._table.has_free_row:
                break
            is_short = self._queue.is_short(request)
            shorts_to_come -= is_short
            if is_long_blocked and not is_short:
                if not shorts_to_come:
                    break
                continue
            verdict = self._try_start(request, budget, step)
            if verdict is _Verdict.STARTED:
                started.append(request)
            elif verdict is _Verdict.NOBODY_ELSE:
                break
            elif not is_short and not budget.long_tokens:
                is_long_blocked = True
        self._queue.remove_all(started)

    def _try_start(self, request: Request, budget: StepBudget, step: StepBuilder) -> _Verdict:
        if request.num_in_flight:
            return _Verdict.NOBODY_ELSE
        if self._kv.is_being_computed(request.waits_for):
            return _Verdict.PASSED_OVER
        hit = self._kv.find_hit(request)
        request.waits_for = hit.next_hash
        if self._kv.is_being_computed(hit.next_hash):
            return _Verdict.PASSED_OVER
        pending = request.num_tokens - hit.num_tokens
        granted = budget.take(pending)
        if not granted:
            return _Verdict.PASSED_OVER
        if not self._kv.try_start(request, hit):
            budget.give_back(pending, granted)
            return _Verdict.NOBODY_ELSE
        budget.requests -= 1
        if not request.scheduled_time:
            request.scheduled_time = self._clock()
            request.num_cached_tokens = hit.num_tokens
        self._table.start(request)
        step.start(request, granted)
        return _Verdict.STARTED
