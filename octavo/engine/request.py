"""The engine's mutable view of one request, and of one batch in flight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NewType

from octavo.contracts.request import EngineRequest
from octavo.contracts.sampling import TokenSampling
from octavo.contracts.schedule import SchedulerOutput

BlockId = NewType("BlockId", int)
BlockHash = NewType("BlockHash", bytes)

NEVER = 1 << 62
"""A number of tokens that no request reaches."""


class RequestStatus(Enum):
    """Where a request stands."""

    WAITING = 0
    """In the queue, without row and blocks. A preempted request is here, too."""
    RUNNING = 1
    """Has a row and blocks."""
    FINISHED = 2
    """Has ended. Keeps row and blocks while a plan in flight names it."""


@dataclass(slots=True, eq=False)
class Request:
    """One request from ``add`` until its last plan is updated.

    Invariant: the first ``len(token_ids)`` of the ``num_tokens`` tokens are known, and the others
    are being computed; ``num_computed_tokens <= num_tokens``, and ``num_confirmed_tokens`` is
    not above it while the request runs.
    """

    request_id: str
    token_ids: list[int]
    """Prompt and output, as far as known."""
    num_prompt_tokens: int
    sampling: TokenSampling
    arrival_time: float
    priority: int
    sequence: int
    """Place in the order of intake; no two requests share one."""
    cache_salt: str
    max_tokens: int
    """Length at which it ends. [tokens]"""
    min_tokens: int
    """Length up to which stop tokens do not count. [tokens]"""
    stop_token_ids: frozenset[int]
    num_tokens: int
    """Known tokens and those in flight."""

    status: RequestStatus = RequestStatus.WAITING
    row: int = -1
    num_computed_tokens: int = 0
    """Tokens whose KV is in its blocks once every plan so far has run."""
    num_confirmed_tokens: int = 0
    """The same, once every plan that was updated has run."""
    num_in_flight: int = 0
    """Plans that name it and are not updated yet."""

    block_ids: list[list[BlockId]] = field(default_factory=list)
    """Per KV group, in order of position."""
    capacity: int = 0
    """Tokens that its blocks hold."""
    block_hashes: list[BlockHash] = field(default_factory=list)
    """Hashes of its leading full blocks, as far as anyone asked."""
    num_published_blocks: int = 0
    publish_at: int = NEVER
    """Confirmed length at which its next block can be published. [tokens]"""
    waits_for: BlockHash | None = None
    """Block it needs that another request was computing."""

    is_announced: bool = False
    """Whether an output was sent."""
    num_cached_tokens: int = 0
    """Prefix hit when it first started."""
    scheduled_time: float = 0.0
    """When it first started; 0 before. [s]"""
    num_prompt_logprobs: int = 0
    """Prompt positions whose log-probabilities were sent."""

    @classmethod
    def of(cls, message: EngineRequest, *, sequence: int, max_model_len: int) -> Request:
        """Make a request that waits."""
        sampling = message.sampling
        token_ids = message.prompt_token_ids + message.output_token_ids
        return cls(
            request_id=message.request_id,
            token_ids=token_ids,
            num_prompt_tokens=len(message.prompt_token_ids),
            sampling=sampling,
            arrival_time=message.arrival_time,
            priority=message.priority,
            sequence=sequence,
            cache_salt=message.cache_salt,
            max_tokens=min(len(token_ids) + sampling.max_tokens, max_model_len),
            min_tokens=len(message.prompt_token_ids) + sampling.min_tokens,
            stop_token_ids=frozenset(sampling.stop_token_ids),
            num_tokens=len(token_ids),
        )

    @property
    def order(self) -> tuple[int, float, int]:
        """Sorts requests by who goes first."""
        return (self.priority, self.arrival_time, self.sequence)

    @property
    def num_pending_tokens(self) -> int:
        """Tokens that are not computed yet; the last one by length never needs to be."""
        return min(self.num_tokens, self.max_tokens - 1) - self.num_computed_tokens

    @property
    def wants_prompt_logprobs(self) -> bool:
        """Whether log-probabilities of its prompt are still to be sent."""
        return (
            self.sampling.prompt_logprobs is not None
            and self.num_prompt_logprobs < self.num_prompt_tokens - 1
        )


@dataclass(slots=True, eq=False)
class InFlight:
    """A plan on its way through the device, and the requests behind its rows."""

    plan: SchedulerOutput
    requests: Sequence[Request]
    """In the order of the plan."""
    num_scheduled_tokens: Sequence[int]
