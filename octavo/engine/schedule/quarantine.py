"""After a failed step: run its requests in halves until the one that breaks it is alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from octavo.engine.request import Request, RequestStatus


@dataclass(slots=True)
class _Trial:
    """Requests that run together, without any other, until each has got a token or ended."""

    requests: dict[Request, None]
    num_tokens: dict[Request, int] = field(default_factory=dict)
    """Known tokens of each when its trial began."""


@dataclass(slots=True)
class Quarantine:
    """Groups of suspects; while there are any, the first alone runs.

    A group that fails is split, so the number of failures is bounded by twice the number of
    suspects, and each request of a group that does not fail has gained a token. Requests that
    fail only together therefore still finish.
    """

    _trials: list[_Trial] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self._trials)

    @property
    def members(self) -> list[Request]:
        """Requests of the group that runs now, in order."""
        return sorted(self._trials[0].requests, key=lambda request: request.order)

    def suspect(self, failed: Sequence[Request]) -> None:
        """Split the requests of a failed step; they are tried before all others."""
        failed_set = set(failed)
        rest = [
            _trial(request for request in trial.requests if request not in failed_set)
            for trial in self._trials
        ]
        half = (len(failed) + 1) // 2
        halves = [_trial(failed[:half]), _trial(failed[half:])]
        self._trials = [trial for trial in (*halves, *rest) if trial.requests]

    def advance(self) -> bool:
        """Drop the groups that have stood their trial; return whether there were any."""
        before = len(self._trials)
        while self._trials and _is_cleared(self._trials[0]):
            del self._trials[0]
        return len(self._trials) < before


def _trial(requests: Iterable[Request]) -> _Trial:
    members = dict.fromkeys(requests)
    return _Trial(members, {request: len(request.token_ids) for request in members})


def _is_cleared(trial: _Trial) -> bool:
    return all(
        request.status is RequestStatus.FINISHED
        or len(request.token_ids) > trial.num_tokens[request]
        for request in trial.requests
    )
