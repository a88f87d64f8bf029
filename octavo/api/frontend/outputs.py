"""What the frontend gives back for a request."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Logprob:
    """Log-probability of one token at one position."""

    logprob: float
    rank: int
    """1 is the most likely."""
    decoded_token: str
    """Text of the token alone; bytes that are no character are U+FFFD."""
    token_bytes: bytes


@dataclass(slots=True)
class CompletionOutput:
    """One answer, or the part of it that is new (``OutputKind.DELTA``)."""

    index: int
    text: str
    token_ids: list[int]
    logprobs: list[dict[int, Logprob]] | None = None
    """Per token: the sampled one first, then alternatives in falling order."""
    cumulative_logprob: float | None = None
    finish_reason: str | None = None
    """stop, length or abort; None while the answer goes on."""
    stop_reason: int | str | None = None
    """The stop string or stop token id that ended it."""


@dataclass(slots=True)
class RequestOutput:
    """One request's answers, or the parts that are new."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput] = field(default_factory=list)
    finished: bool = False
    num_cached_tokens: int = 0
    """Prompt tokens served from the prefix cache. [tokens]"""
    prompt_logprobs: list[dict[int, Logprob] | None] | None = None
    """Per prompt token; None for the first. Complete in the first output that has it."""
