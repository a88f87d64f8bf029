"""Every live request: waiting queue, running list, rows, and who left them."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Protocol

from octavo.engine.request import Request, RequestStatus


class Waiting(Protocol):
    """The waiting queue, as the table needs it; ``schedule.queue`` gives it an order."""

    def __len__(self) -> int:
        """Return the number of requests."""

    def add(self, request: Request) -> None:
        """Put a request in its place."""

    def remove(self, request: Request) -> None:
        """Take a request out."""


class RequestTable:
    """Where every request stands, and who has which row.

    A row is given up with ``leave_row``; its number may be used again by the next plan, which
    also tells the device.

    Invariant: a request in ``running`` has a row, one in ``waiting`` has none, and every row
    number is free or belongs to one request.
    """

    def __init__(self, waiting: Waiting, *, max_rows: int) -> None:
        self.waiting = waiting
        self.running: dict[Request, None] = {}
        """In order of admission."""
        self.freed_rows: list[int] = []
        """Rows left since the last plan."""
        self.num_preempted = 0
        """Preemptions so far."""
        self._by_id: dict[str, Request] = {}
        self._free_rows = list(range(max_rows))

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def has_free_row(self) -> bool:
        return bool(self._free_rows)

    def find(self, request_id: str) -> Request | None:
        """Return a live request."""
        return self._by_id.get(request_id)

    def live(self) -> list[Request]:
        """Every request that has not ended."""
        return list(self._by_id.values())

    def add(self, request: Request) -> None:
        """Let a new request wait."""
        self._by_id[request.request_id] = request
        self.waiting.add(request)

    def start(self, request: Request) -> None:
        """Give a row to a request that was taken out of the queue."""
        request.status = RequestStatus.RUNNING
        request.row = heappop(self._free_rows)
        self.running[request] = None

    def preempt(self, request: Request) -> None:
        """Put a running request back into the queue. Its blocks are no longer its own."""
        del self.running[request]
        self.leave_row(request)
        request.status = RequestStatus.WAITING
        request.num_computed_tokens = 0
        self.num_preempted += 1
        self.waiting.add(request)

    def finish(self, request: Request) -> None:
        """End a request. It keeps its row until ``leave_row``."""
        del self._by_id[request.request_id]
        if request.status is RequestStatus.RUNNING:
            del self.running[request]
        else:
            self.waiting.remove(request)
        request.status = RequestStatus.FINISHED

    def leave_row(self, request: Request) -> None:
        """Take the row from a request."""
        self.freed_rows.append(request.row)
        heappush(self._free_rows, request.row)
        request.row = -1

    def forget_rows(self) -> None:
        """The device has forgotten every row: nobody need tell it which are free."""
        self.freed_rows = []
