"""Bounded intake: limits, and the 429 with its Retry-After."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from octavo.kit.errors import Overloaded, RequestRefused

_MIN_RETRY_S = 1.0
_MAX_RETRY_S = 60.0


class Admission:
    """Counts what is live and refuses what does not fit; drops nothing that was let in.

    Invariant: ``num_requests`` and ``num_tokens`` are the sums over open tickets.
    """

    def __init__(
        self,
        *,
        max_requests: int,
        max_tokens: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.max_requests = max_requests
        self.max_tokens = max_tokens
        self.num_requests = 0
        self.num_tokens = 0
        self._clock = clock
        self._left: deque[tuple[float, int]] = deque(maxlen=64)

    def enter(self, num_requests: int) -> Ticket:
        """Let a call with ``num_requests`` answers in.

        Raises:
            RequestRefused: so many never fit.
            Overloaded: they do not fit now.
        """
        if num_requests > self.max_requests:
            raise RequestRefused(
                f"n={num_requests}: this server runs and queues at most {self.max_requests} "
                "requests. Lower n.",
                param="n",
            )
        over = self.num_requests + num_requests - self.max_requests
        if over > 0:
            raise Overloaded(
                f"{self.num_requests} requests run or wait, at most {self.max_requests} may. "
                "Send the request again later.",
                retry_after_s=self._time_to_leave(over),
            )
        self.num_requests += num_requests
        return Ticket(self, num_requests)

    def charge(self, num_tokens: int) -> None:
        """Count prompt tokens; a prompt that comes alone always fits.

        Raises:
            Overloaded: they do not fit now; nothing is counted.
        """
        over = self.num_tokens + num_tokens - self.max_tokens
        if over > 0 and self.num_tokens:
            mean = self.num_tokens / max(1, self.num_requests)
            raise Overloaded(
                f"prompts of {self.num_tokens} tokens run or wait, this one has {num_tokens}, "
                f"at most {self.max_tokens} may. Send the request again later.",
                retry_after_s=self._time_to_leave(over / max(1.0, mean)),
            )
        self.num_tokens += num_tokens

    def leave(self, num_requests: int, num_tokens: int) -> None:
        """Give back what a ticket held."""
        self.num_requests -= num_requests
        self.num_tokens -= num_tokens
        self._left.append((self._clock(), num_requests))

    def _time_to_leave(self, num_requests: float) -> float:
        """Seconds until so many have left, at the rate of the last ones."""
        if len(self._left) < 2:
            return _MIN_RETRY_S
        span = self._clock() - self._left[0][0]
        rate = sum(count for _, count in self._left) / max(span, 1e-3)
        return min(_MAX_RETRY_S, max(_MIN_RETRY_S, num_requests / rate))


class Ticket:
    """One call's place. Close it exactly when its last answer has ended; idempotent."""

    __slots__ = ("_admission", "_num_requests", "_num_tokens")

    def __init__(self, admission: Admission, num_requests: int) -> None:
        self._admission = admission
        self._num_requests = num_requests
        self._num_tokens = 0

    def charge(self, num_tokens: int) -> None:
        """Count the prompt tokens of the call."""
        self._admission.charge(num_tokens)
        self._num_tokens += num_tokens

    def close(self) -> None:
        """Give everything back."""
        if self._num_requests:
            self._admission.leave(self._num_requests, self._num_tokens)
            self._num_requests = self._num_tokens = 0
