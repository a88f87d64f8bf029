"""Sampler: from raw logits to tokens, in one fixed order.

1. Log-probabilities, where wanted, are those of the raw logits.
2. Edits of a row's logits: allowed token ids, logit bias, minimum length, bad words, penalties.
3. Greedy rows take the largest logit, the lowest id among equals.
4. Other rows: temperature, min-p, top-k, top-p, then the largest of chance over noise.

S rows that sample, V vocabulary. The order of step 4 is vLLM's: min-p looks at the probabilities
after temperature, and top-p at those that min-p and top-k have left.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.contracts.output import TokenLogprobs
from octavo.contracts.runner import RowStatus
from octavo.device.batch import DeviceBatch, Ints
from octavo.device.ops.row_argmax import row_argmax
from octavo.device.ops.true_places import true_places
from octavo.device.sample.filters import least_kept
from octavo.device.sample.logprobs import token_logprobs
from octavo.device.sample.noise import noise_keys, noise_of, noise_of_all
from octavo.device.sample.penalties import Penalizer
from octavo.device.sample.state import RowText, SamplingState

_PIECE_ELEMENTS = 1 << 17
"""Logits that are drawn from at once; their noise stays in a core's cache."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Tokens of the rows that sample."""

    token_ids: Tensor
    """[S] int64, device; 0 where the status is not OK."""
    status: NDArray[np.int32]
    """[S]"""
    logprob_places: Ints | None = None
    """Which of the S rows ``logprobs`` describes."""
    logprobs: TokenLogprobs | None = None


class Sampler:
    """Draws one token per row."""

    def __init__(self, batch: DeviceBatch, state: SamplingState, penalizer: Penalizer) -> None:
        self._batch = batch
        self._state = state
        self._penalizer = penalizer

    def draw(self, logits: Tensor, rows: Ints) -> Drawn:
        """Draw a token for each of ``rows``; ``logits`` [S, V] is overwritten."""
        tokens = row_argmax(logits)  # [S]
        largest = logits.gather(1, tokens[:, None])[:, 0]
        status = np.where(largest.isfinite().cpu().numpy(), RowStatus.OK, RowStatus.NOT_FINITE)
        status = status.astype(np.int32)
        if not self._state.is_plain[rows].all():
            return self._draw_special(logits, rows, tokens, status)
        return Drawn(_cleared(tokens, status), status)

    def _draw_special(
        self, logits: Tensor, rows: Ints, tokens: Tensor, status: NDArray[np.int32]
    ) -> Drawn:
        state, is_good = self._state, status == RowStatus.OK
        reported = np.flatnonzero((state.num_logprobs[rows] >= 0) & is_good)
        raw = logits[torch.from_numpy(reported)] if len(reported) else None
        edited = [place for place in np.flatnonzero(is_good) if state.edits[rows[place]]]
        self._edit(logits, rows, edited, tokens, status)
        chance = np.flatnonzero((state.temperature[rows] > 0) & (status == RowStatus.OK))
        is_cut = state.cuts.of(rows[chance]).are_set(logits.shape[1])
        pieces = (_pieces(part, logits.shape[1]) for part in (chance[is_cut], chance[~is_cut]))
        for piece in chain.from_iterable(pieces):
            tokens[torch.from_numpy(piece)] = self._draw_by_chance(logits, rows, piece)
        tokens = _cleared(tokens, status)
        if raw is None:
            return Drawn(tokens, status)
        sampled = status[reported] == RowStatus.OK
        reported, raw = reported[sampled], raw[torch.from_numpy(sampled)]
        most = int(state.num_logprobs[rows[reported]].max(initial=0))
        logprobs = token_logprobs(raw, tokens[torch.from_numpy(reported)], most)
        return Drawn(tokens, status, reported, logprobs)

    def _edit(
        self,
        logits: Tensor,
        rows: Ints,
        edited: list[np.intp],
        tokens: Tensor,
        status: NDArray[np.int32],
    ) -> None:
        """Apply the edits of some rows and take their largest logits again."""
        if not edited:
            return
        for place in edited:
            row = int(rows[place])
            edits, line = self._state.edits[row], logits[place]
            assert edits is not None
            edits.apply(line, self._text(row), self._penalizer)
        places = torch.tensor(edited)
        again = logits[places]  # [E, V]
        tokens[places] = best = row_argmax(again)
        largest = again.gather(1, best[:, None])[:, 0].cpu().numpy()
        status[edited] = np.where(
            np.isneginf(largest),
            RowStatus.NOTHING_ALLOWED,
            np.where(np.isfinite(largest), RowStatus.OK, RowStatus.NOT_FINITE),
        )

    def _draw_by_chance(self, logits: Tensor, rows: Ints, piece: Ints) -> Tensor:
        """Return the tokens of the rows at places ``piece``."""
        rows, state, device = rows[piece], self._state, logits.device
        vocab_size = logits.shape[1]
        scaled = logits[torch.from_numpy(piece)]  # [P, V]
        scaled -= scaled.amax(dim=1, keepdim=True)
        scaled /= torch.from_numpy(state.temperature[rows])[:, None].to(device)
        chances = scaled.softmax(dim=1)
        keys = noise_keys(state.seeds[rows], self._batch.num_tokens[rows])
        keys_there = torch.from_numpy(keys).to(device)
        cuts = state.cuts.of(rows)
        if not cuts.are_set(vocab_size).any():
            return row_argmax(chances.div_(noise_of_all(keys_there, vocab_size)))
        flat = true_places(chances >= least_kept(chances, cuts))
        line, kept = flat // vocab_size, chances.view(-1)[flat]
        noisy = torch.zeros_like(chances)
        noisy.view(-1)[flat] = kept / noise_of(keys_there[line], flat % vocab_size)
        return row_argmax(noisy)

    def _text(self, row: int) -> RowText:
        batch = self._batch
        tokens = batch.token_ids[row, : int(batch.num_tokens[row])].to(torch.int64)
        return RowText(tokens, int(batch.num_prompt_tokens[row]))


def _cleared(tokens: Tensor, status: NDArray[np.int32]) -> Tensor:
    """Put token 0 where nothing was sampled, so that a step in flight has something to read."""
    failed = np.flatnonzero(status != RowStatus.OK)
    if len(failed):
        tokens[torch.from_numpy(failed)] = 0
    return tokens


def _pieces(places: Ints, vocab_size: int) -> list[Ints]:
    size = max(1, _PIECE_ELEMENTS // vocab_size)
    return [places[begin : begin + size] for begin in range(0, len(places), size)]
