"""Device to engine: what a step produced, or why it could not."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from octavo.contracts.codec import IntArray, Message
from octavo.contracts.output import TokenLogprobs


class RowStatus(IntEnum):
    """What became of one row of a plan."""

    OK = 0
    NOT_FINITE = 1
    """Its logits hold NaN or infinity; nothing was sampled."""
    NOTHING_ALLOWED = 2
    """Every token was excluded by its parameters; nothing was sampled."""


class PromptLogprobs(Message, frozen=True):
    """Log-probabilities of prompt tokens that one row computed in this step."""

    index: int
    """Place of the row in the plan."""
    logprobs: TokenLogprobs
    """One row per prompt token predicted in this step, in order of position."""


class ModelRunnerOutput(Message, frozen=True):
    """Tokens of one step, in the order of the plan."""

    step: int
    token_ids: IntArray
    """[R, 1]; meaningless where ``num_tokens`` is 0."""
    num_tokens: IntArray
    """[R] 1 where the row sampled, else 0."""
    row_status: IntArray
    """[R] ``RowStatus``"""
    logprob_rows: IntArray | None = None
    """[N] places in the plan of the rows that ``logprobs`` describes."""
    logprobs: TokenLogprobs | None = None
    prompt_logprobs: list[PromptLogprobs] = msgspec.field(default_factory=list)
    device_time_s: float = 0.0
    """Time from taking the plan to its tokens, as the device saw it. [s]"""


class WorkerError(Message, frozen=True):
    """A rank could not do a step, or has ended."""

    step: int
    rank: int
    kind: str
    """``host``: the device is sound and the rank goes on; ``device``: the rank is lost."""
    cause: str
    operator: bool = False
    """The setup is wrong; the operator can mend it."""
