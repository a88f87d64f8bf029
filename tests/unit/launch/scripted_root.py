"""A root process over two scripted children; prints what it is told, exits as ``serve`` would."""

from __future__ import annotations

import socket
import sys

from octavo.config.frontend import ServerConfig
from octavo.contracts.launch import Drain, Draining, Reached, Serving, StartChild
from octavo.kit.errors import EngineDied, OperatorError
from octavo.launch.processes import Process
from octavo.launch.supervisor import Supervisor, arriving_signals
from tests.unit.engine.executor.workers import config_for

CHILD = "tests.unit.launch.scripted_child"


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def tell(news: Reached | Serving | Draining) -> None:
    match news:
        case Reached():
            say("reached", news.point)
        case Serving():
            say("ready", news.ready.num_blocks)
        case Draining():
            say("draining", news.num_requests)


def end(engine: Process) -> None:
    """Tell the engine what the API process would tell it through their channel."""
    say("drain")
    engine.order(Drain(0.0))


def main(script: str) -> int:
    server = ServerConfig(host="h", port=1, uds=None, api_keys=(), max_body_bytes=1)
    start = StartChild(config_for(script), server, "")
    with arriving_signals() as signals:
        return run(start, signals)


def run(start: StartChild, signals: socket.socket) -> int:
    engine = Process("engine", CHILD, start)
    api = Process("api", CHILD, start, fds=[1])
    say("pids", engine.pid, api.pid)
    supervisor = Supervisor(
        api,
        engine,
        grace_s=7.0,
        on_drain=lambda: end(engine),
        on_news=tell,
    )
    try:
        return supervisor.run(signals)
    except OperatorError as error:
        say("operator:", error)
        return 2
    except EngineDied as error:
        say("died:", error)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
