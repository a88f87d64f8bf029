"""SamplingState: the sampling parameters of every row, ready to be gathered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from octavo.contracts.sampling import Penalties, TokenSampling
from octavo.device.sample.filters import BadWords, Cuts, exclude, keep_only
from octavo.device.sample.penalties import Penalizer

_SEED_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class RowText:
    """What a row's edits read: its tokens so far."""

    tokens: Tensor
    """[num_tokens] int64"""
    num_prompt_tokens: int

    @property
    def num_output_tokens(self) -> int:
        return self.tokens.numel() - self.num_prompt_tokens


@dataclass(frozen=True, slots=True)
class RowEdits:
    """Changes to one row's logits before temperature, in their order. None is off."""

    allowed: Tensor | None
    bias: tuple[Tensor, Tensor] | None
    """Token ids, and what is added to their logits."""
    min_tokens: int
    stop_token_ids: Tensor
    bad_words: BadWords | None
    penalties: Penalties | None

    @staticmethod
    def of(sampling: TokenSampling, vocab_size: int, device: torch.device) -> RowEdits | None:
        """Build from ``sampling``, or None where it edits nothing.

        Token ids beyond the vocabulary are left out: they are never sampled.
        """
        if not _edits_something(sampling):
            return None

        def known(token_ids: list[int]) -> list[int]:
            return [token for token in token_ids if 0 <= token < vocab_size]

        def column(token_ids: list[int]) -> Tensor:
            return torch.tensor(known(token_ids), dtype=torch.int64, device=device)

        bias, allowed = sampling.logit_bias, sampling.allowed_token_ids
        words = [
            word for word in sampling.bad_words_token_ids or [] if word and known(word) == word
        ]
        return RowEdits(
            allowed=None if allowed is None else column(allowed),
            bias=_bias(bias, known(list(bias)), device) if bias else None,
            min_tokens=sampling.min_tokens,
            stop_token_ids=column(sampling.stop_token_ids),
            bad_words=BadWords.of(words, device) if words else None,
            penalties=sampling.penalties,
        )

    def apply(self, logits: Tensor, text: RowText, penalizer: Penalizer) -> None:
        """Change ``logits`` [V] in place."""
        if self.allowed is not None:
            keep_only(logits, self.allowed)
        if self.bias is not None:
            logits[self.bias[0]] += self.bias[1]
        if text.num_output_tokens < self.min_tokens:
            exclude(logits, self.stop_token_ids)
        if self.bad_words is not None:
            self.bad_words.apply(logits, text.tokens[text.num_prompt_tokens :])
        if self.penalties is not None:
            penalizer.apply(logits, self.penalties, text.tokens, text.num_prompt_tokens)


class SamplingState:
    """Columns of sampling parameters by row number, and the edits of the rows that have some."""

    def __init__(self, num_rows: int, vocab_size: int, device: torch.device) -> None:
        self.temperature = np.zeros(num_rows, np.float32)
        self.cuts = Cuts(
            top_k=np.full(num_rows, vocab_size, np.int64),
            top_p=np.ones(num_rows, np.float64),
            min_p=np.zeros(num_rows, np.float32),
        )
        self.seeds = np.zeros(num_rows, np.uint64)
        self.num_logprobs = np.full(num_rows, -1, np.int64)
        """-1 where none are wanted."""
        self.num_prompt_logprobs = np.full(num_rows, -1, np.int64)
        self.edits: list[RowEdits | None] = [None] * num_rows
        self.is_plain = np.ones(num_rows, np.bool_)
        """Greedy, without edits or log-probabilities: the token is the largest logit."""
        self.is_direct = np.ones(num_rows, np.bool_)
        """Without edits, limits or log-probabilities: one pass over the logits draws the token."""
        self.vocab_size = vocab_size
        self._device = device

    def start(self, row: int, sampling: TokenSampling) -> None:
        """Give ``row`` to a new request."""
        self.temperature[row] = sampling.temperature
        self.cuts.top_k[row] = min(sampling.top_k, self.vocab_size) or self.vocab_size
        self.cuts.top_p[row] = sampling.top_p
        self.cuts.min_p[row] = sampling.min_p
        self.seeds[row] = sampling.seed & _SEED_MASK
        self.num_logprobs[row] = -1 if sampling.logprobs is None else sampling.logprobs
        prompt = sampling.prompt_logprobs
        self.num_prompt_logprobs[row] = -1 if prompt is None else prompt
        self.edits[row] = edits = RowEdits.of(sampling, self.vocab_size, self._device)
        is_greedy = self.temperature[row] == 0.0
        bare = edits is None and sampling.logprobs is None
        self.is_plain[row] = is_greedy and bare
        is_cut = not is_greedy and bool(self.cuts.of(np.array([row])).are_set(self.vocab_size)[0])
        self.is_direct[row] = bare and prompt is None and not is_cut


def _edits_something(sampling: TokenSampling) -> bool:
    return bool(
        sampling.min_tokens
        or sampling.logit_bias
        or sampling.allowed_token_ids is not None
        or sampling.bad_words_token_ids
        or sampling.penalties is not None
    )


def _bias(
    bias: dict[int, float], token_ids: list[int], device: torch.device
) -> tuple[Tensor, Tensor]:
    values = [bias[token] for token in token_ids]
    return (
        torch.tensor(token_ids, dtype=torch.int64, device=device),
        torch.tensor(values, dtype=torch.float32, device=device),
    )
