"""Process entry of a worker: calls from the engine's ring, replies into its own.

Arguments: the lifeline's descriptor, those of the ring of calls, those of the ring of replies.
"""

from __future__ import annotations

import logging
import sys
from importlib import import_module

import msgspec

from octavo.contracts.codec import Codec
from octavo.contracts.runner import WorkerError
from octavo.contracts.schedule import SampleInput, SchedulerOutput
from octavo.contracts.worker import (
    CallDone,
    ControlCall,
    LifecycleCall,
    WorkerAPI,
    WorkerCall,
    WorkerInit,
    WorkerReply,
    finished,
)
from octavo.kit.errors import OperatorError, can_operator_mend, is_device_lost, one_line
from octavo.kit.log import set_up_logging
from octavo.transport.base import PeerGone
from octavo.transport.child import Lifeline, end_with
from octavo.transport.shm import RingReader, RingWriter
from octavo.transport.shm_ends import ReaderFds, WriterFds

logger = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    """Serve one rank until the engine closes it or ends."""
    lifeline_fd, calls, replies = arguments
    lifeline = Lifeline.inherited(int(lifeline_fd))
    try:
        maker, *frames = lifeline.receive()
    except PeerGone:
        return 1
    end_with(lifeline)
    init = Codec[WorkerInit](WorkerInit).decode(frames)
    set_up_logging(f"worker.{init.rank}", init.config.log_level)
    rank = _Rank(
        init,
        RingReader(ReaderFds.parse(calls), reader=init.rank, num_readers=init.world_size),
        RingWriter(WriterFds.parse(replies)),
    )
    try:
        return rank.serve(bytes(maker).decode())
    except PeerGone:
        return 1


class _Rank:
    """One worker behind its two rings.

    Invariant: after a failed step every further one fails with the same cause, until ``reset``:
    its rows may be wrong.
    """

    def __init__(self, init: WorkerInit, calls: RingReader, replies: RingWriter) -> None:
        self._init = init
        self._calls = calls
        self._replies = replies
        self._calls_codec: Codec[WorkerCall] = Codec(WorkerCall)
        self._replies_codec: Codec[WorkerReply] = Codec(WorkerReply)
        self._broken: WorkerError | None = None
        self._is_output_rank = init.rank == (
            init.world_size - init.config.parallel.tensor_parallel_size
        )

    def serve(self, maker: str) -> int:
        """Make the worker and run calls; return the exit code."""
        try:
            worker = _make(maker, self._init)
        except Exception as error:  # noqa: BLE001 (process entry)
            self._tell(self._error(-1, error))
            return 1
        while True:
            frames = self._calls.receive(None)
            assert frames is not None  # there is no time limit
            call = self._calls_codec.decode(frames)
            if isinstance(call, LifecycleCall) and call.name == "close":
                worker.close()
                return 0
            reply = self._answer(worker, call)
            if reply is not None:
                self._tell(reply)
            if isinstance(reply, WorkerError) and reply.kind == "device":
                return 1

    def _answer(self, worker: WorkerAPI, call: WorkerCall) -> WorkerReply | None:
        match call:
            case SchedulerOutput():
                self._execute(worker, call)
                return None
            case SampleInput():
                return self._sample(worker, call)
            case LifecycleCall() | ControlCall():
                try:
                    return self._control(worker, call)
                except Exception as error:  # noqa: BLE001 (the caller decides)
                    return self._error(-1, error)

    def _execute(self, worker: WorkerAPI, plan: SchedulerOutput) -> None:
        if self._broken is not None:
            return
        try:
            worker.execute(plan)
        except Exception as error:  # noqa: BLE001 (the sample call of this step tells it)
            self._broken = self._error(plan.step, error)

    def _sample(self, worker: WorkerAPI, sample: SampleInput) -> WorkerReply | None:
        if self._broken is None:
            try:
                sampled = finished(worker.sample(sample))
            except Exception as error:  # noqa: BLE001 (the engine decides)
                self._broken = self._error(sample.step, error)
            else:
                return sampled if self._is_output_rank else None
        return msgspec.structs.replace(self._broken, step=sample.step)

    def _control(self, worker: WorkerAPI, call: LifecycleCall | ControlCall) -> CallDone:
        if isinstance(call, ControlCall):
            return CallDone(value=worker.call(call.name, call.args))
        match call.name:
            case "start":
                pass  # it has been made, or this would not run
            case "load":
                worker.load()
            case "kv_cache_specs":
                return CallDone(specs=worker.kv_cache_specs())
            case "measure_memory":
                return CallDone(memory=worker.measure_memory())
            case "allocate":
                assert call.kv_cache is not None
                worker.allocate(call.kv_cache)
            case "warm_up":
                worker.warm_up()
            case "reset":
                worker.reset()
                self._broken = None
            case _:
                raise AssertionError(call.name)
        return CallDone()

    def _tell(self, reply: WorkerReply) -> None:
        self._replies.send(self._replies_codec.encode(reply))

    def _error(self, step: int, error: Exception) -> WorkerError:
        if not isinstance(error, OperatorError):
            logger.error(
                "step %d failed" if step >= 0 else "call failed (%d)", step, exc_info=error
            )
        return WorkerError(
            step=step,
            rank=self._init.rank,
            kind="device" if is_device_lost(error) else "host",
            cause=one_line(error),
            operator=can_operator_mend(error),
        )


def _make(maker: str, init: WorkerInit) -> WorkerAPI:
    module, _, name = maker.partition(":")
    worker: WorkerAPI = vars(import_module(module))[name](init)
    return worker


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
