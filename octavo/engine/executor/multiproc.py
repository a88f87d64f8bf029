"""One process per rank on this machine: calls by shared-memory ring, replies by a ring each."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections import deque

from octavo.config.octavo import OctavoConfig
from octavo.contracts.codec import Codec
from octavo.contracts.kv import KVCacheConfig, KVCacheSpec, MemoryReport
from octavo.contracts.runner import ModelRunnerOutput, WorkerError
from octavo.contracts.schedule import SampleInput, SchedulerOutput
from octavo.contracts.worker import (
    CallDone,
    ControlCall,
    LifecycleCall,
    WorkerCall,
    WorkerInit,
    WorkerReply,
)
from octavo.engine.executor.base import WorkerFailed
from octavo.kit.errors import ConfigError
from octavo.transport.base import PeerGone
from octavo.transport.child import Child, describe_exit
from octavo.transport.shm import RingReader, RingWriter, receive_any
from octavo.transport.shm_ends import ReaderFds, make_ring

_MODULE = "octavo.device.main"
_CLOSE_TIMEOUT_S = 5.0
_EXIT_TIMEOUT_S = 0.5

logger = logging.getLogger(__name__)


class MultiprocExecutor:
    """Every rank reads every call; the output rank answers ``sample``, all answer the others.

    Invariant: replies of a rank come in the order of its calls, so the oldest pending step is
    the one that the next reply of the output rank is about.
    """

    def __init__(self, config: OctavoConfig, worker: object) -> None:
        if not isinstance(worker, str):
            raise ConfigError(
                "executor",
                "multiproc",
                want="starts workers by name in their own processes, and was given an object",
                fix="Use --executor uniproc.",
            )
        self._calls_codec: Codec[WorkerCall] = Codec(WorkerCall)
        self._replies_codec: Codec[WorkerReply] = Codec(WorkerReply)
        self._pending: deque[_PendingStep] = deque()
        self._lost: WorkerFailed | None = None
        self._is_closed = False
        world_size = config.parallel.world_size
        self._output_rank = world_size - config.parallel.tensor_parallel_size
        calls, call_ends = make_ring(world_size)
        self._calls = RingWriter(calls)
        self._replies: list[RingReader] = []
        self._ranks: list[Child] = []
        for rank, call_end in enumerate(call_ends):
            self._start_rank(
                WorkerInit(config, rank=rank, local_rank=rank, world_size=world_size),
                worker,
                call_end,
            )

    def start(self) -> None:
        self._call(LifecycleCall("start"))

    def load(self) -> None:
        self._call(LifecycleCall("load"))

    def kv_cache_specs(self) -> list[KVCacheSpec]:
        return [spec for done in self._call(LifecycleCall("kv_cache_specs")) for spec in done.specs]

    def measure_memory(self) -> MemoryReport:
        reports = [done.memory for done in self._call(LifecycleCall("measure_memory"))]
        return min(
            (report for report in reports if report is not None),
            key=lambda report: report.available_for_kv_bytes,
        )

    def allocate(self, kv_cache: KVCacheConfig) -> None:
        self._call(LifecycleCall("allocate", kv_cache))
        self._call(LifecycleCall("warm_up"))

    def execute(self, plan: SchedulerOutput) -> None:
        self._send(plan)

    def sample(self, sample: SampleInput) -> _PendingStep:
        pending = _PendingStep(self)
        self._pending.append(pending)
        self._send(sample)
        return pending

    def reset(self) -> None:
        self._call(LifecycleCall("reset"))

    def call_all(self, name: str, args: list[int | str | bool]) -> list[int | str | bool | None]:
        return [done.value for done in self._call(ControlCall(name, args))]

    def check(self) -> None:
        if self._is_closed:
            return
        for rank, child in enumerate(self._ranks):
            if child.exit_code() is not None:
                self._lose(self._ended(rank))
        self._raise_if_lost()

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        deadline = time.monotonic() + _CLOSE_TIMEOUT_S
        if self._lost is None:
            self._say_goodbye(deadline)
        for child in self._ranks:
            child.stop(max(0.5, deadline - time.monotonic()))
        self._lose(WorkerFailed("the executor is closed", is_fatal=True))
        self._calls.close()
        for replies in self._replies:
            replies.close()

    def resolve_oldest(self) -> None:
        """Wait for the next reply about a step; it belongs to the oldest pending one.

        Raises:
            WorkerFailed: a rank is lost, so no reply will come.
        """
        self._raise_if_lost()
        rank, reply = self._receive(list(range(len(self._ranks))))
        self._resolve(rank, reply)

    def _start_rank(self, init: WorkerInit, worker: str, call_end: ReaderFds) -> None:
        reply_end, [replies] = make_ring(1)
        fds = (*call_end.all, *reply_end.all)
        child = Child(_MODULE, [str(call_end), str(reply_end)], fds)
        for fd in fds:
            os.close(fd)
        self._replies.append(RingReader(replies))
        self._ranks.append(child)
        with contextlib.suppress(PeerGone):  # the first call will say how it ended
            child.lifeline.send([worker.encode(), *Codec[WorkerInit](WorkerInit).encode(init)])

    def _call(self, call: WorkerCall) -> list[CallDone]:
        """Send a call to all ranks and wait for all answers; pending steps resolve meanwhile."""
        self._send(call)
        answers: dict[int, CallDone] = {}
        while len(answers) < len(self._ranks):
            self._raise_if_lost()
            rank, reply = self._receive(
                [rank for rank in range(len(self._ranks)) if rank not in answers]
            )
            if isinstance(reply, CallDone):
                answers[rank] = reply
            elif isinstance(reply, WorkerError) and reply.step < 0:
                raise self._failure(rank, reply)
            else:
                self._resolve(rank, reply)
        return [answers[rank] for rank in range(len(self._ranks))]

    def _send(self, call: WorkerCall) -> None:
        if self._lost is not None:
            return
        try:
            self._calls.send(self._calls_codec.encode(call))
        except PeerGone:
            ended = [rank for rank, child in enumerate(self._ranks) if child.wait(_EXIT_TIMEOUT_S)]
            self._lose(self._ended(ended[0] if ended else 0))

    def _receive(self, ranks: list[int]) -> tuple[int, WorkerReply]:
        try:
            found = receive_any([self._replies[rank] for rank in ranks], None)
        except PeerGone as gone:
            self._lose(self._ended(ranks[gone.args[1]]))
            raise self._lost_again() from None
        assert found is not None  # there is no time limit
        index, frames = found
        return ranks[index], self._replies_codec.decode(frames)

    def _resolve(self, rank: int, reply: WorkerReply) -> None:
        match reply:
            case ModelRunnerOutput():
                self._pending.popleft().outcome = reply
            case WorkerError():
                failure = self._failure(rank, reply)
                if failure.is_fatal:
                    self._lose(failure)
                else:
                    self._pending.popleft().outcome = failure
            case CallDone():
                raise AssertionError("an answer without a question")

    def _failure(self, rank: int, error: WorkerError) -> WorkerFailed:
        """One error among several ranks is fatal: the others wait for that rank."""
        cause = error.cause if len(self._ranks) == 1 else f"rank {rank}: {error.cause}"
        return WorkerFailed(
            cause,
            is_fatal=error.kind == "device" or len(self._ranks) > 1,
            is_operator=error.operator,
        )

    def _ended(self, rank: int) -> WorkerFailed:
        child = self._ranks[rank]
        child.wait(_EXIT_TIMEOUT_S)  # its end is seen before its exit code is there
        code = child.exit_code()
        how = "closed its rings" if code is None else f"ended with {describe_exit(code)}"
        return WorkerFailed(f"worker {rank} (process {child.pid}) {how}", is_fatal=True)

    def _lose(self, failure: WorkerFailed) -> None:
        """From now on everything fails; the first cause stays."""
        self._lost = self._lost or failure
        while self._pending:
            self._pending.popleft().outcome = self._lost_again()

    def _raise_if_lost(self) -> None:
        if self._lost is not None:
            raise self._lost_again()

    def _lost_again(self) -> WorkerFailed:
        assert self._lost is not None
        return WorkerFailed(self._lost.cause, is_fatal=True, is_operator=self._lost.is_operator)

    def _say_goodbye(self, deadline: float) -> None:
        try:
            self._calls.send(self._calls_codec.encode(LifecycleCall("close")), _EXIT_TIMEOUT_S)
        except (PeerGone, TimeoutError):
            logger.warning("a worker takes no calls any more; all are ended")
            return
        for child in self._ranks:
            child.wait(max(0.0, deadline - time.monotonic()))


class _PendingStep:
    """Tokens of one step, or the reason why there are none, once they are here."""

    def __init__(self, executor: MultiprocExecutor) -> None:
        self._executor = executor
        self.outcome: ModelRunnerOutput | WorkerFailed | None = None

    def result(self) -> ModelRunnerOutput:
        while self.outcome is None:
            self._executor.resolve_oldest()
        if isinstance(self.outcome, WorkerFailed):
            raise self.outcome
        return self.outcome


EXECUTOR = MultiprocExecutor
