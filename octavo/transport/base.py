"""A channel between the frontend and an engine, as each end sees it.

Frames are what ``contracts.codec`` makes; a channel does not look inside.
"""

from __future__ import annotations

from typing import Protocol

Frames = list[bytes | memoryview]


class PeerGone(ConnectionError):
    """The other end has closed or its process has ended; nothing more will come."""


class FrontendEnd(Protocol):
    """The API process's end. Used from one event loop."""

    async def send(self, frames: Frames) -> None:
        """Hand one message to the engine; never waits for the engine to read it.

        Before the engine has connected, messages are kept for it.

        Raises:
            PeerGone: the engine was there and has ended.
        """

    async def receive(self) -> Frames:
        """Wait for the next message of the engine.

        Raises:
            PeerGone: the engine was there and has ended; all it sent has been received.
        """

    def close(self) -> None:
        """Release the channel; idempotent. Messages already sent still arrive."""


class EngineEnd(Protocol):
    """The engine's end. Used from one thread."""

    def send(self, frames: Frames) -> None:
        """Hand one message to the frontend; never waits for it to be read."""

    def receive(self, timeout_s: float | None) -> Frames | None:
        """Take the next message; None when none came in ``timeout_s``.

        0 does not wait, None waits without end.
        """

    def close(self) -> None:
        """Release the channel; idempotent. Messages already sent still arrive."""
