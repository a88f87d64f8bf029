"""Engine to API: tokens, ends, statistics, state of the process."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from octavo.contracts.codec import FloatArray, IntArray, Message


class FinishReason(StrEnum):
    """Why a request ended, in the words of the OpenAI API, plus two of our own."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


class RequestError(Message, frozen=True):
    """Why one request could not go on."""

    message: str
    param: str | None = None
    status: int = 500


class TokenLogprobs(Message, frozen=True):
    """Log-probabilities of N positions, of the raw logits.

    Column 0 of the arrays is the token that stands there, 1..K the most likely ones in
    falling order. Where requests of one batch ask for different numbers, K is the largest.
    """

    token_ids: IntArray
    """[N, 1 + K]"""
    values: FloatArray
    """[N, 1 + K]"""
    ranks: IntArray
    """[N] rank of the token that stands there; 1 is the most likely."""


class EngineOutput(Message, frozen=True):
    """News of one request. The last one has a ``finish_reason``."""

    request_id: str
    new_token_ids: list[int]
    finish_reason: FinishReason | None = None
    stop_reason: int | None = None
    """The stop token id that ended it, where that is not the model's end of text."""
    num_cached_tokens: int = -1
    """Prompt tokens served from the prefix cache; sent with the first output, else -1. [tokens]"""
    scheduled_time: float = 0.0
    """First time a step ran it; sent with the first output, else 0. [s]"""
    logprobs: TokenLogprobs | None = None
    """One row per new token."""
    prompt_logprobs: TokenLogprobs | None = None
    """One row per prompt token from the second on; sent in pieces, in order, complete before the
    first new token."""
    error: RequestError | None = None


class SchedulerStats(Message, frozen=True):
    """State after a step. Counters are differences since the last message."""

    num_running: int = 0
    num_waiting: int = 0
    kv_usage: float = 0.0
    """Held blocks over all blocks."""
    num_prefix_queried_tokens: int = 0
    num_prefix_hit_tokens: int = 0
    num_preempted: int = 0
    num_scheduled_tokens: int = 0


class UtilityResult(Message, frozen=True):
    """Answer to one ``UtilityCall``."""

    call_id: int
    value: int | str | bool | None = None
    error: str | None = None


class EngineOutputs(Message, frozen=True):
    """Everything one step has to say to one API process."""

    engine: int
    generation: int
    outputs: list[EngineOutput]
    stats: SchedulerStats | None = None
    utility: UtilityResult | None = None
    timestamp: float = 0.0
    """``time.monotonic()`` when the step was updated. [s]"""


class EngineReady(Message, frozen=True):
    """The engine serves from now on."""

    engine: int
    generation: int
    max_model_len: int
    num_blocks: int
    block_size: int
    version: str
    phases: list[tuple[str, float]]
    """Names and durations of the engine's start, in order. [s]"""
    notes: list[str] = msgspec.field(default_factory=list)
    """Decisions of the start that an operator should see, such as a fallback."""


class EngineDead(Message, frozen=True):
    """The engine has ended; ``error`` is one line, ``where`` the place it came from.

    ``operator`` is true where the setup is wrong and the operator can mend it (exit code 2).
    """

    engine: int
    error: str
    where: str
    operator: bool = False


EngineMessage = EngineOutputs | EngineReady | EngineDead
