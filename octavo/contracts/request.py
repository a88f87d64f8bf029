"""API to engine: what to run, what to stop, what to answer."""

from __future__ import annotations

import msgspec

from octavo.contracts.codec import Message
from octavo.contracts.sampling import TokenSampling


class EngineRequest(Message, frozen=True):
    """Run this. Sent once per request.

    ``prompt_token_ids`` is never empty and fits the model; the frontend refuses that earlier.
    """

    request_id: str
    prompt_token_ids: list[int]
    sampling: TokenSampling
    arrival_time: float
    """``time.monotonic()`` of the API process. [s]"""
    priority: int = 0
    """Lower is earlier."""
    cache_salt: str = ""
    """Requests share prefix blocks only with requests of the same salt."""
    client: int = 0
    """Which API process asked."""
    output_token_ids: list[int] = msgspec.field(default_factory=list)
    """Tokens emitted before a resumption; they count as output."""


class Abort(Message, frozen=True):
    """Stop these. Unknown ids are ignored: they have just finished."""

    request_ids: list[str]


class UtilityCall(Message, frozen=True):
    """Call a control method of the engine; the answer is a ``UtilityResult``."""

    call_id: int
    method: str
    args: list[int | str | bool] = msgspec.field(default_factory=list)


class Shutdown(Message, frozen=True):
    """End the engine: abort what runs, stop workers, leave."""


FrontendMessage = EngineRequest | Abort | UtilityCall | Shutdown
