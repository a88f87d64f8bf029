"""Engine to device: one step, in integer columns."""

from __future__ import annotations

import msgspec

from octavo.contracts.codec import IntArray, Message
from octavo.contracts.sampling import TokenSampling


class NewRequest(Message, frozen=True):
    """Start a row. Carries everything; later plans carry deltas."""

    row: int
    request_id: str
    token_ids: IntArray
    """Prompt, and output where the request is resumed."""
    num_prompt_tokens: int
    block_ids: list[list[int]]
    """Per KV group: blocks for the prefix hit and for this step's tokens."""
    num_computed_tokens: int
    """Tokens whose KV is in ``block_ids`` already (the prefix hit)."""
    sampling: TokenSampling


class BlockUpdates(Message, frozen=True):
    """Blocks to append to block tables.

    Update i belongs to row ``rows[i]``, group ``groups[i]`` and is
    ``block_ids[offsets[i]:offsets[i + 1]]``.
    """

    rows: IntArray
    groups: IntArray
    offsets: IntArray
    block_ids: IntArray


class SchedulerOutput(Message, frozen=True):
    """The plan of one step (call 2). Rows are in the order in which the device answers.

    A row samples in this step exactly if its last known token is computed by it; the device
    sees that from its rows: ``num_computed + num_scheduled == num_tokens``. Apply ``freed_rows``
    first (a number may be used again by ``new`` of the same plan), then ``new``, then
    ``new_blocks``.
    """

    step: int
    new: list[NewRequest]
    rows: IntArray
    """[R]"""
    num_scheduled_tokens: IntArray
    """[R], each at least 1."""
    freed_rows: list[int] = msgspec.field(default_factory=list)
    new_blocks: BlockUpdates | None = None


class SampleInput(Message, frozen=True):
    """Draw the tokens of step ``step`` (call 3)."""

    step: int
