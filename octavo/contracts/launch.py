"""Between the root process and the children it starts."""

from __future__ import annotations

from octavo.config.frontend import ServerConfig
from octavo.config.octavo import OctavoConfig
from octavo.contracts.codec import Message
from octavo.contracts.output import EngineReady


class StartChild(Message, frozen=True):
    """What to run. The first message to each child."""

    config: OctavoConfig
    server: ServerConfig
    channel: str
    """Path of the socket on which the API process and the engine meet."""


class Drain(Message, frozen=True):
    """Take nothing new, finish what runs within ``grace_s``, then end."""

    grace_s: float


class Reached(Message, frozen=True):
    """A point of the start: ``imports`` or ``http``."""

    point: str


class Serving(Message, frozen=True):
    """Requests are answered from now on."""

    ready: EngineReady
    has_chat: bool
    """There is a chat template, so messages are taken."""


class Draining(Message, frozen=True):
    """The API process takes nothing new and waits for ``num_requests``."""

    num_requests: int


class ChildFailed(Message, frozen=True):
    """Why the child is about to end. ``operator`` where the setup is wrong (exit code 2)."""

    error: str
    operator: bool = False


ChildOrder = StartChild | Drain
ChildNews = Reached | Serving | Draining | ChildFailed
