"""Process entry: boot, busy loop, death notice."""

from __future__ import annotations

import logging
from typing import Protocol, assert_never

import msgspec

import octavo
from octavo.config.octavo import OctavoConfig
from octavo.contracts.codec import Codec
from octavo.contracts.output import EngineDead, EngineMessage, EngineOutputs, EngineReady
from octavo.contracts.request import Abort, EngineRequest, FrontendMessage, Shutdown, UtilityCall
from octavo.engine.boot import Booted, boot
from octavo.engine.core import EngineCore
from octavo.engine.executor.base import Executor, WorkerFailed
from octavo.engine.overlap import OverlappedCore
from octavo.engine.utility import Utilities
from octavo.kit.errors import OperatorError, one_line
from octavo.transport.base import EngineEnd

log = logging.getLogger(__name__)

_IDLE_CHECK_S = 1.0
"""How often an idle engine looks after its workers. [s]"""


class Stepper(Protocol):
    """One way to run steps: ``EngineCore`` or ``OverlappedCore``."""

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""

    def step(self) -> EngineOutputs | None:
        """Run a step; None when there is nothing to tell."""

    def recover(self, failure: WorkerFailed) -> None:
        """Carry on after a step that failed."""


def run_engine(
    config: OctavoConfig,
    channel: EngineEnd,
    executor: Executor,
    *,
    engine: int = 0,
    generation: int = 0,
) -> EngineDead | None:
    """Serve requests from ``channel`` until ``Shutdown``.

    Says ``EngineReady`` when it serves, and ``EngineDead`` if it ends in any way but
    ``Shutdown``; returns what it said. The executor is closed on return, the channel is not.
    """
    codec: Codec[EngineMessage] = Codec(EngineMessage)
    try:
        booted = boot(config, executor)
        core = EngineCore(config, booted.kv_cache, executor, identity=(engine, generation))
        channel.send(codec.encode(_ready(config, booted, engine, generation)))
        EngineLoop(core, channel, overlap=config.scheduler.overlap).run()
    except OperatorError as error:
        dead = EngineDead(engine, one_line(error), "start", operator=True)
    except WorkerFailed as failure:
        dead = EngineDead(engine, failure.cause, "worker", operator=failure.is_operator)
    except Exception as error:  # the process entry: whatever it is, the frontend must know
        log.exception("the engine ends")
        dead = EngineDead(engine, one_line(error), "engine")
    else:
        return None
    finally:
        executor.close()
    channel.send(codec.encode(dead))
    return dead


class EngineLoop:
    """Reads messages between steps, and steps while there is work."""

    def __init__(self, core: EngineCore, channel: EngineEnd, *, overlap: bool) -> None:
        self._core = core
        self._stepper: Stepper = OverlappedCore(core) if overlap else core
        self._utilities = Utilities(core.table, core.kv, core.updater)
        self._channel = channel
        self._incoming: Codec[FrontendMessage] = Codec(FrontendMessage)
        self._outgoing: Codec[EngineMessage] = Codec(EngineMessage)

    def run(self) -> None:
        """Serve until ``Shutdown``."""
        while self._read():
            if self._stepper.has_work:
                self._tell(self._step())
            else:
                self._tell(self._core.updater.flush())

    def _read(self) -> bool:
        """Apply every message that is there, waiting for one if there is no work.

        Returns False after ``Shutdown``.
        """
        frames = self._channel.receive(0.0)
        while frames is None and not self._stepper.has_work:
            frames = self._channel.receive(_IDLE_CHECK_S)
            self._core.executor.check()
        while frames is not None:
            try:
                message = self._incoming.decode(frames)
            except (msgspec.MsgspecError, TypeError, ValueError, IndexError) as error:
                log.error("a message that is none was dropped: %s", error)  # noqa: TRY400
            else:
                if not self._apply(message):
                    return False
            frames = self._channel.receive(0.0)
        return True

    def _apply(self, message: FrontendMessage) -> bool:
        match message:
            case EngineRequest():
                self._core.add(message)
            case Abort():
                self._core.abort(message.request_ids)
            case UtilityCall():
                self._answer(message)
            case Shutdown():
                self._core.abort([request.request_id for request in self._core.table.live()])
                self._tell(self._core.updater.flush())
                return False
            case _:
                assert_never(message)
        return True

    def _step(self) -> EngineOutputs | None:
        try:
            return self._stepper.step()
        except WorkerFailed as failure:
            if failure.is_fatal:
                raise
            self._stepper.recover(failure)
            return self._core.updater.flush()

    def _answer(self, call: UtilityCall) -> None:
        result = self._utilities.answer(call)
        outputs = self._core.updater.collect()
        self._tell(msgspec.structs.replace(outputs, utility=result))

    def _tell(self, outputs: EngineOutputs | None) -> None:
        if outputs is not None:
            self._channel.send(self._outgoing.encode(outputs))


def _ready(config: OctavoConfig, booted: Booted, engine: int, generation: int) -> EngineReady:
    return EngineReady(
        engine=engine,
        generation=generation,
        max_model_len=config.scheduler.max_model_len,
        num_blocks=booted.kv_cache.num_blocks,
        block_size=config.cache.block_size,
        version=octavo.__version__,
        phases=booted.phases,
    )
