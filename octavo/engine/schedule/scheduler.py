"""Scheduler.schedule(): running first, then waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from octavo.config.scheduler import SchedulerConfig
from octavo.engine.kv.manager import KVCacheManager
from octavo.engine.request import InFlight, Request, RequestStatus
from octavo.engine.request_table import RequestTable
from octavo.engine.schedule.admission import Admission
from octavo.engine.schedule.budget import StepBudget
from octavo.engine.schedule.builder import StepBuilder
from octavo.engine.schedule.preemption import choose_victim, roll_back, weaker_victim
from octavo.engine.schedule.quarantine import Quarantine
from octavo.engine.schedule.queue import WaitingQueue


class Scheduler:
    """Decides who runs and with how many tokens.

    There is no prefill phase and no decode phase: a request simply has tokens that are not
    computed yet, and is granted as many as fit.

    Nobody starves. Among live requests of the highest priority take the one that came first.
    While it runs, no other takes its blocks (``choose_victim``) and every step has a token for
    it: there are at least as many tokens as requests in a step, answers take one each, and what
    prompts take before it, they take once. While it waits, nobody passes it for want of blocks
    or a row, so those that run end and make room; those that pass it for want of tokens are
    short, and can do so only while longer prompts before it, which are finitely many, are being
    computed; and the request whose block it waits for runs or gives up its claim. So it ends,
    and then the next one is first. Only requests of higher priority that never cease to come
    keep one of lower priority waiting: that is what priority says.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        queue: WaitingQueue,
        table: RequestTable,
        kv: KVCacheManager,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._queue = queue
        self._table = table
        self._kv = kv
        self._admission = Admission(queue, table, kv, clock)
        self._quarantine = Quarantine()
        self._num_steps = 0

    def schedule(self) -> InFlight | None:
        """Grant tokens to running requests, then admit waiting ones; None if nobody can run."""
        if self._quarantine:
            self._next_trial()
        if self._config.policy == "priority":
            self._make_way()
        budget = StepBudget.full(self._config)
        step = StepBuilder()
        num_preempted = self._table.num_preempted
        self._continue_running(budget, step)
        if self._table.num_preempted == num_preempted and self._queue:
            self._admission.admit(self._candidates(), budget, step)
        if not step.requests:
            return None
        self._num_steps += 1
        freed_rows, self._table.freed_rows = self._table.freed_rows, []
        return step.build(self._num_steps, freed_rows)

    def suspect(self, failed: Sequence[Request]) -> None:
        """Find out which of the requests of a failed step breaks it."""
        self._quarantine.suspect(sorted(failed, key=lambda request: request.order))

    def preempt(self, request: Request) -> None:
        """Return a running request to the queue."""
        roll_back(request, self._table, self._kv)

    def _continue_running(self, budget: StepBudget, step: StepBuilder) -> None:
        """Serve those that need one token, then short prompts, then long ones."""
        prompts: list[Request] = []
        for request in list(self._table.running):
            pending = request.num_pending_tokens
            if not pending or request.row < 0:
                continue  # its last token is in flight, or it was preempted below
            budget.requests -= 1
            if pending > 1:
                prompts.append(request)
            else:
                self._continue(request, pending, budget, step)
        if self._queue.num_short:
            budget.keep_for_short(self._config.short_prompt_share)
        prompts.sort(key=lambda request: request.num_pending_tokens > budget.short_limit)
        for request in prompts:
            if request.row >= 0:
                self._continue(request, request.num_pending_tokens, budget, step)

    def _continue(
        self, request: Request, pending: int, budget: StepBudget, step: StepBuilder
    ) -> None:
        granted = budget.take(pending)
        if not granted:
            return
        num_tokens = request.num_computed_tokens + granted
        if num_tokens > request.capacity and not self._make_room(request, num_tokens, budget, step):
            budget.give_back(pending, granted)
            return
        step.schedule(request, granted)

    def _make_room(
        self, request: Request, num_tokens: int, budget: StepBudget, step: StepBuilder
    ) -> bool:
        """Preempt others until ``request`` has its blocks, or is itself the one to go."""
        while not (added := self._kv.try_grow(request, num_tokens)):
            victim = choose_victim(self._table.running)
            budget.tokens += step.drop(victim)
            self.preempt(victim)
            if victim is request:
                return False
        step.grow(request, added)
        return True

    def _make_way(self) -> None:
        """Preempt requests of lower priority if the next waiting one finds no place.

        One request a step has way made for it; the next one has its turn in the next step.
        """
        for request in self._candidates():
            if request.num_in_flight:
                return
            if self._kv.is_being_computed(request.waits_for):
                continue
            self._preempt_for(request)
            return

    def _has_place(self, request: Request) -> bool:
        running = self._table.running
        if len(running) >= self._config.max_num_seqs:
            num_active = sum(bool(other.num_pending_tokens) for other in running)
            if num_active >= self._config.max_num_seqs or not self._table.has_free_row:
                return False
        needed = self._kv.num_blocks_to_start(request, self._kv.find_hit(request))
        return needed <= self._kv.num_free_blocks

    def _preempt_for(self, request: Request) -> None:
        weaker = [r for r in self._table.running if r.priority > request.priority]
        if not weaker or self._has_place(request):
            return
        gain = sum(len(blocks) for other in weaker for blocks in other.block_ids)
        needed = self._kv.num_blocks_to_start(request, self._kv.find_hit(request))
        if needed > self._kv.num_free_blocks + gain:
            return
        while weaker and not self._has_place(request):
            victim = weaker_victim(weaker)
            weaker.remove(victim)
            self.preempt(victim)

    def _candidates(self) -> Iterable[Request]:
        if not self._quarantine:
            return self._queue
        return [r for r in self._quarantine.members if r.status is RequestStatus.WAITING]

    def _next_trial(self) -> None:
        """Stop the group that has stood its trial, so that the next one runs alone."""
        if self._quarantine.advance() and self._quarantine:
            for request in list(self._table.running):
                self.preempt(request)
