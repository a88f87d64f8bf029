"""A child of the root whose behaviour is the model's path: words in order, ``name:word``."""

from __future__ import annotations

import os
import sys
import threading
import time

from octavo.contracts.launch import ChildFailed, Drain, Draining, Reached, Serving, StartChild
from octavo.contracts.output import EngineReady
from octavo.kit.errors import CheckpointError
from octavo.launch.processes import Parent, run_child

READY = EngineReady(0, 0, 64, 9, 16, "0.1", phases=[("load weights", 1.5)])


def main(arguments: list[str]) -> int:
    name = "engine" if len(arguments) == 1 else "api"
    return run_child(name, arguments, lambda parent, start: _act(name, parent, start))


def _act(name: str, parent: Parent, start: StartChild) -> ChildFailed | None:
    drained = threading.Event()
    graces: list[float] = []

    def on_drain(drain: Drain) -> None:
        graces.append(drain.grace_s)
        drained.set()

    parent.watch(on_drain=on_drain)
    parent.tell(Reached("imports" if name == "engine" else "http"))
    for word in start.config.model.path.split():
        who, _, what = word.partition(":")
        if who != name:
            continue
        if what == "drain":
            drained.wait()
            sys.stderr.write(f"grace {graces[0]}\n")
            if name == "api":
                parent.tell(Draining(3))
        elif what == "ready":
            parent.tell(Serving(READY, has_chat=True))
        else:
            _misbehave(what)
    return None


def _misbehave(what: str) -> None:
    match what:
        case "refuse":
            raise CheckpointError("weights are cut off")
        case "break":
            raise ValueError("a bug\nin two lines")
        case "die":
            os.kill(os.getpid(), 9)
        case "leave":
            sys.exit(0)
        case "wait":
            time.sleep(0.3)
        case "hang":
            time.sleep(60)
        case _:
            raise AssertionError(what)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
