"""Choose a victim and roll it back."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from octavo.engine.kv.manager import KVCacheManager
from octavo.engine.request import Request
from octavo.engine.request_table import RequestTable


def choose_victim(running: Collection[Request]) -> Request:
    """Return the request of lowest priority that loses least, but never the first in order.

    What it loses is what it has computed: its published blocks may serve it again, but room is
    short, and they are what will be taken. Of equals, the last in order goes. That the first in
    order stays is what lets every request finish: it cannot lose its place to a later one.
    """
    first = min(running, key=lambda request: request.order)
    candidates = [request for request in running if request is not first] or [first]
    return min(candidates, key=_sacrifice)


def weaker_victim(weaker: Iterable[Request]) -> Request:
    """Return the request of lowest priority that loses least."""
    return min(weaker, key=_sacrifice)


def roll_back(request: Request, table: RequestTable, kv: KVCacheManager) -> None:
    """Return a running request to the queue; all it computed is to be computed again.

    Tokens in flight are kept: they arrive with the update of their plan, and it does not start
    again before.
    """
    kv.release(request)
    table.preempt(request)


def _sacrifice(request: Request) -> tuple[int, int, float, int]:
    lost = request.num_computed_tokens if request.num_pending_tokens else 0
    return (-request.priority, lost, -request.arrival_time, -request.sequence)
