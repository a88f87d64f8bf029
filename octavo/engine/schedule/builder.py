"""Collect decisions into one SchedulerOutput."""

from __future__ import annotations

import numpy as np

from octavo.contracts.schedule import BlockUpdates, NewRequest, SchedulerOutput
from octavo.engine.request import InFlight, Request


class StepBuilder:
    """Who runs in this step, with how many tokens, and what the device must be told.

    A decision changes the request's counts at once, so the next decision sees them.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._granted: list[int] = []
        self._new: list[NewRequest] = []
        self._grown: list[tuple[Request, int]] = []

    def schedule(self, request: Request, granted: int) -> None:
        """Let a running request compute ``granted`` more tokens."""
        self.requests.append(request)
        self._granted.append(granted)
        request.num_in_flight += 1
        request.num_computed_tokens += granted
        if request.num_computed_tokens == request.num_tokens:
            request.num_tokens += 1

    def start(self, request: Request, granted: int) -> None:
        """Let a request that has just got its row compute its first tokens."""
        self._new.append(
            NewRequest(
                row=request.row,
                request_id=request.request_id,
                token_ids=np.array(request.token_ids, np.int32),
                num_prompt_tokens=request.num_prompt_tokens,
                block_ids=[list(blocks) for blocks in request.block_ids],
                num_computed_tokens=request.num_computed_tokens,
                sampling=request.sampling,
            )
        )
        self.schedule(request, granted)

    def grow(self, request: Request, num_added: int) -> None:
        """Tell the device of the last ``num_added`` blocks in each group of a request."""
        self._grown.append((request, num_added))

    def drop(self, request: Request) -> int:
        """Take back what was decided about a request; return the tokens it was granted."""
        self._grown = [(grown, added) for grown, added in self._grown if grown is not request]
        if request not in self.requests:
            return 0
        place = self.requests.index(request)
        del self.requests[place]
        granted = self._granted.pop(place)
        request.num_in_flight -= 1
        request.num_computed_tokens -= granted
        if request.num_tokens > len(request.token_ids):  # a part of a prompt has none in flight
            request.num_tokens -= 1
        return granted

    def build(self, step: int, freed_rows: list[int]) -> InFlight:
        """Return the plan."""
        plan = SchedulerOutput(
            step=step,
            new=self._new,
            rows=np.array([request.row for request in self.requests], np.int32),
            num_scheduled_tokens=np.array(self._granted, np.int32),
            freed_rows=freed_rows,
            new_blocks=self._block_updates() if self._grown else None,
        )
        return InFlight(plan, self.requests, self._granted)

    def _block_updates(self) -> BlockUpdates:
        rows, groups, offsets, block_ids = [], [], [0], list[int]()
        for request, num_added in self._grown:
            for group, blocks in enumerate(request.block_ids):
                rows.append(request.row)
                groups.append(group)
                block_ids += blocks[-num_added:]
                offsets.append(len(block_ids))
        columns = (np.array(column, np.int32) for column in (rows, groups, offsets, block_ids))
        return BlockUpdates(*columns)
