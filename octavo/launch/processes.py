"""Both sides of a child process: the root's, which starts and ends it, and the child's own."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from octavo.contracts.codec import Codec
from octavo.contracts.launch import ChildFailed, ChildNews, ChildOrder, Drain, StartChild
from octavo.kit.errors import OperatorError, one_line
from octavo.kit.log import set_up_logging
from octavo.transport.base import PeerGone
from octavo.transport.child import Child, Lifeline, describe_exit, end_with

_EXIT_TIMEOUT_S = 1.0

logger = logging.getLogger(__name__)


class Process:
    """A child of the root process: orders down, news up."""

    def __init__(
        self, name: str, module: str, start: StartChild, *, fds: Iterable[int] = ()
    ) -> None:
        """Start it. Its arguments are the lifeline's descriptor and ``fds``."""
        self.name = name
        self.start_time = time.monotonic()
        inherited = tuple(fds)
        self._child = Child(module, map(str, inherited), inherited)
        self._orders: Codec[ChildOrder] = Codec(ChildOrder)
        self._news: Codec[ChildNews] = Codec(ChildNews)
        self.order(start)

    @property
    def pid(self) -> int:
        return self._child.pid

    def fileno(self) -> int:
        """Readable when there is news, or the end."""
        return self._child.lifeline.fileno()

    def order(self, order: ChildOrder) -> None:
        """Send an order; one that the child does not live to read is dropped."""
        try:
            self._child.lifeline.send(self._orders.encode(order))
        except PeerGone:
            logger.debug("%s has ended before it took an order", self.name)

    def news(self) -> ChildNews | None:
        """Take the next news; None when the child has ended."""
        try:
            return self._news.decode(self._child.lifeline.receive())
        except PeerGone:
            return None

    def how_it_ended(self) -> str:
        """For a child whose lifeline has closed: exit code or signal."""
        self._child.wait(_EXIT_TIMEOUT_S)
        code = self._child.exit_code()
        return "closed its lifeline" if code is None else f"ended with {describe_exit(code)}"

    def stop(self) -> None:
        """End it now. Idempotent."""
        self._child.stop(_EXIT_TIMEOUT_S)


class Parent:
    """The root process, as a child sees it."""

    def __init__(self, lifeline_fd: str) -> None:
        self._lifeline = Lifeline.inherited(int(lifeline_fd))
        self._orders: Codec[ChildOrder] = Codec(ChildOrder)
        self._news: Codec[ChildNews] = Codec(ChildNews)

    def first_order(self) -> StartChild:
        """Wait for what to run.

        Raises:
            PeerGone: the root ended before it said so.
        """
        order = self._orders.decode(self._lifeline.receive())
        assert isinstance(order, StartChild)
        return order

    def tell(self, news: ChildNews) -> None:
        """Send news; when the root has ended, this process is about to end as well."""
        try:
            self._lifeline.send(self._news.encode(news))
        except PeerGone:
            logger.debug("the root process has ended")

    def watch(
        self,
        *,
        on_drain: Callable[[Drain], object] | None = None,
        farewell: Callable[[], None] | None = None,
    ) -> None:
        """End with the root. ``on_drain`` is called on another thread."""

        def obey(frames: list[bytes | memoryview]) -> None:
            order = self._orders.decode(frames)
            if isinstance(order, Drain) and on_drain is not None:
                on_drain(order)

        end_with(self._lifeline, on_message=obey, farewell=farewell)


def run_child(
    name: str, arguments: list[str], body: Callable[[Parent, StartChild], ChildFailed | None]
) -> int:
    """Run ``body`` as a child of the root, report its failure, and return the exit code."""
    parent = Parent(arguments[0])
    try:
        start = parent.first_order()
    except PeerGone:
        return 1
    set_up_logging(name, start.config.log_level)
    try:
        failed = body(parent, start)
    except OperatorError as error:
        failed = ChildFailed(one_line(error), operator=True)
    except Exception as error:
        logger.exception("the %s process ends", name)
        failed = ChildFailed(one_line(error))
    if failed is None:
        return 0
    parent.tell(failed)
    return 2 if failed.operator else 1
