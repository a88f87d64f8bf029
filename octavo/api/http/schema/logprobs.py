"""Log-probabilities of the frontend in the two shapes of the OpenAI API, and in vLLM's."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, field

from octavo.api.frontend.outputs import Logprob
from octavo.api.http.schema.answers import (
    ChatLogprobs,
    CompletionLogprobs,
    PromptLogprob,
    PromptLogprobs,
    TokenLogprob,
    TopLogprob,
)

Position = dict[int, Logprob]

_LOWEST = -9999.0
"""Stands for minus infinity, which JSON cannot say."""


def chat_logprobs(positions: list[Position], num_top: int) -> ChatLogprobs:
    """One entry per token, with its ``num_top`` most likely ones in falling order.

    The sampled token is among them only where it is that likely.
    """
    return ChatLogprobs([_chat_position(position, num_top) for position in positions])


def prompt_logprobs(positions: list[Position | None]) -> PromptLogprobs:
    """Candidates by token id, per prompt token; null for the first."""
    return [
        None
        if position is None
        else {
            str(token_id): PromptLogprob(_finite(item.logprob), item.rank, item.decoded_token)
            for token_id, item in position.items()
        }
        for position in positions
    ]


@dataclass(slots=True)
class CompletionColumns:
    """Makes the columns of one answer; remembers how far into its text they are."""

    num_top: int
    offset: int = 0
    _characters: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("ignore")
    )
    """Counts a character that several tokens spell once, and at its last one."""

    def take(self, positions: Sequence[Position | str]) -> CompletionLogprobs:
        """Columns of the next tokens. A text stands for a token without a log-probability."""
        columns = CompletionLogprobs([], [], [], [])
        for position in positions:
            self._append(columns, position)
        return columns

    def _append(self, columns: CompletionLogprobs, position: Position | str) -> None:
        columns.text_offset.append(self.offset)
        if isinstance(position, str):
            text, spelled = position, position.encode("utf-8", "replace")
            columns.token_logprobs.append(None)
            columns.top_logprobs.append(None)
        else:
            chosen = next(iter(position.values()))
            text, spelled = chosen.decoded_token, chosen.token_bytes
            columns.token_logprobs.append(_finite(chosen.logprob))
            columns.top_logprobs.append(_by_text(position, chosen, self.num_top))
        columns.tokens.append(text)
        self.offset += len(self._characters.decode(spelled))


def _chat_position(position: Position, num_top: int) -> TokenLogprob:
    items = list(position.values())
    chosen = items[0]
    best = sorted((item for item in items if item.rank <= num_top), key=lambda item: item.rank)
    return TokenLogprob(
        chosen.decoded_token,
        _finite(chosen.logprob),
        list(chosen.token_bytes),
        [
            TopLogprob(item.decoded_token, _finite(item.logprob), list(item.token_bytes))
            for item in best[:num_top]
        ],
    )


def _by_text(position: Position, chosen: Logprob, num_top: int) -> dict[str, float]:
    """The chosen one and the most likely; of two tokens with one text the likelier stays."""
    values: dict[str, float] = {}
    for item in sorted(position.values(), key=lambda item: item.rank):
        if item is chosen or item.rank <= num_top:
            values.setdefault(item.decoded_token, _finite(item.logprob))
    return values


def _finite(value: float) -> float:
    return max(_LOWEST, value)
