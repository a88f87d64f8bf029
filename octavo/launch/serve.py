"""``octavo serve``: bind the address, start API process and engine, stay until they end."""

from __future__ import annotations

import sys
from typing import TextIO

from octavo.config.frontend import ServerConfig
from octavo.config.octavo import OctavoConfig
from octavo.contracts.launch import Draining, Reached, Serving, StartChild
from octavo.launch.announce import StartClock, address_of, announcement, waiting
from octavo.launch.listening import listen, stop_listening
from octavo.launch.processes import Process
from octavo.launch.supervisor import Supervisor, arriving_signals
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
    model = config.frontend.served_model_names[0]
    with arriving_signals() as signals:
        listener = listen(server)
        rendezvous = Rendezvous()
        address = address_of(listener, server)
        order = StartChild(config, server, rendezvous.path)

        def tell(news: Reached | Serving | Draining) -> None:
            match news:
                case Reached():
                    clock.reached(news.point)
                case Serving():
                    text = announcement(news, server, address=address, model=model, clock=clock)
                    _say(out or sys.stdout, text)
                case Draining():
                    _say(sys.stderr, waiting(news.num_requests, GRACE_S))

        try:
            return Supervisor(
                engine=Process("engine", "octavo.launch.engine_process", order),
                api=Process("api", "octavo.launch.api_process", order, fds=[listener.fileno()]),
                grace_s=GRACE_S,
                on_drain=lambda: stop_listening(listener, server),
                on_news=tell,
            ).run(signals)
        finally:
            stop_listening(listener, server)
            rendezvous.remove()


def _say(out: TextIO, text: str) -> None:
    out.write(text)
    out.flush()
