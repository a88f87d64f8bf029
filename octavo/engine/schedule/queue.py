"""WaitingQueue: requests by priority, then arrival."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import attrgetter

from octavo.engine.request import Request

_ORDER = attrgetter("order")


class WaitingQueue:
    """Waiting requests, in the order in which they may start.

    Both policies use this order; a preempted request returns to the place it had.
    """

    def __init__(self, *, short_limit: int) -> None:
        self._short_limit = short_limit
        self._requests: list[Request] = []
        self._num_short = 0

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests)

    @property
    def num_short(self) -> int:
        """Requests that have at most ``short_limit`` tokens, cached or not."""
        return self._num_short

    def add(self, request: Request) -> None:
        """Put a request behind those that go before it."""
        requests = self._requests
        if not requests or requests[-1].order < request.order:
            requests.append(request)
        else:
            requests.insert(bisect_left(requests, request.order, key=_ORDER), request)
        self._num_short += self.is_short(request)

    def remove(self, request: Request) -> None:
        """Take a request out."""
        place = bisect_left(self._requests, request.order, key=_ORDER)
        assert self._requests[place] is request
        del self._requests[place]
        self._num_short -= self.is_short(request)

    def remove_all(self, requests: Iterable[Request]) -> None:
        """Take several out at once."""
        for request in requests:
            self.remove(request)

    def is_short(self, request: Request) -> bool:
        """Whether a request counts as short while nothing is known about its prefix."""
        return request.num_tokens <= self._short_limit
