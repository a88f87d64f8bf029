"""Process entry of an engine: its channel, its executor, the engine loop."""

from __future__ import annotations

import sys

from octavo.contracts.launch import ChildFailed, Reached, StartChild
from octavo.engine.main import run_engine
from octavo.kit.extension import ExtensionPoint
from octavo.launch.processes import Parent, run_child
from octavo.transport.zmq import ZmqEngine

EXECUTORS = ExtensionPoint("octavo.executors", "octavo.engine.executor", "EXECUTOR")
WORKER = "octavo.device.worker:make_worker"


def main(arguments: list[str]) -> int:
    """Run until the API process says ``Shutdown``, or the root ends."""
    return run_child("engine", arguments, _run)


def _run(parent: Parent, start: StartChild) -> ChildFailed | None:
    parent.watch()
    executor = EXECUTORS.load(start.config.parallel.executor)(start.config, WORKER)
    parent.tell(Reached("imports"))
    channel = ZmqEngine(start.channel)
    try:
        dead = run_engine(start.config, channel, executor)
    finally:
        channel.close()
    return None if dead is None else ChildFailed(dead.error, operator=dead.operator)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
