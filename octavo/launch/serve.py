"""``octavo serve``: bind the address, start API process and engine, stay until they end."""

from __future__ import annotations

import sys
from typing import TextIO

from octavo.config.frontend import ServerConfig
from octavo.config.octavo import OctavoConfig
from octavo.contracts.launch import StartChild
from octavo.contracts.output import EngineReady
from octavo.launch.announce import StartClock, address_of, announcement
from octavo.launch.listening import listen, stop_listening
from octavo.launch.processes import Process
from octavo.launch.supervisor import Supervisor
from octavo.transport.rendezvous import Rendezvous

GRACE_S = 30.0
"""Time that running requests have to finish after SIGTERM. [s]"""


def serve(config: OctavoConfig, server: ServerConfig, out: TextIO | None = None) -> int:
    """Serve until a signal, and return the exit code.

    Raises:
        OperatorError: the address is taken, or the engine cannot start with this setup.
        EngineDied: a process ended for another reason.
    """
    clock = StartClock()
    listener = listen(server)
    rendezvous = Rendezvous()
    address = address_of(listener, server)
    order = StartChild(config, server, rendezvous.path)

    def announce(ready: EngineReady) -> None:
        text = announcement(
            ready,
            server,
            address=address,
            model=config.frontend.served_model_names[0],
            clock=clock,
        )
        stream = out or sys.stdout
        stream.write(text)
        stream.flush()

    try:
        return Supervisor(
            engine=Process("engine", "octavo.launch.engine_process", order),
            api=Process("api", "octavo.launch.api_process", order, fds=[listener.fileno()]),
            grace_s=GRACE_S,
            on_reached=clock.reached,
            on_ready=announce,
            on_drain=lambda: stop_listening(listener, server),
        ).run()
    finally:
        stop_listening(listener, server)
        rendezvous.remove()
