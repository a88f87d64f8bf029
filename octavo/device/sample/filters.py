"""What excludes tokens: allowed ids, bias, minimum length, bad words, min-p, top-k, top-p.

Each function works on its row alone, so a row gives the same bits in any batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.device.ops.row_head import row_head

_EXCLUDED = -math.inf
_HEAD = 1024
"""Most likely tokens that are looked at first. A constant, so that a row's way is its own."""


@dataclass(frozen=True, slots=True)
class BadWords:
    """Token sequences that must not be completed.

    W words, at most L tokens before the last one.
    """

    last: Tensor
    """[W] int64: the token that would complete the word."""
    before: Tensor
    """[W, L] int64: the tokens before it, right-aligned; -1 stands for any."""
    num_before: Tensor
    """[W] int64"""

    @staticmethod
    def of(words: list[list[int]], device: torch.device) -> BadWords:
        """Build from token ids; every word has at least one."""
        longest = max(len(word) for word in words) - 1
        before = [[-1] * (longest - len(word) + 1) + word[:-1] for word in words]
        return BadWords(
            last=torch.tensor([word[-1] for word in words], device=device),
            before=torch.tensor(before, dtype=torch.int64, device=device).view(len(words), longest),
            num_before=torch.tensor([len(word) - 1 for word in words], device=device),
        )

    def apply(self, logits: Tensor, output: Tensor) -> None:
        """Exclude the last token of every word whose other tokens end ``output``.

        Shapes:
            logits: [V]
            output: [num_output_tokens] int64
        """
        length = min(self.before.shape[1], output.numel())
        before = self.before[:, self.before.shape[1] - length :]
        tail = output[output.numel() - length :]
        matches = ((before == tail) | (before < 0)).all(dim=1) & (self.num_before <= length)
        logits[self.last[matches]] = _EXCLUDED


@dataclass(frozen=True, slots=True)
class Cuts:
    """The limits of rows that keep only their most likely tokens. Host columns, one per row."""

    top_k: NDArray[np.int64]
    """The size of the vocabulary where off."""
    top_p: NDArray[np.float64]
    min_p: NDArray[np.float32]

    def __iter__(self) -> Iterator[NDArray[Any]]:  # Any: the columns differ in type
        return iter((self.top_k, self.top_p, self.min_p))

    def of(self, rows: NDArray[np.int64]) -> Cuts:
        """Gather the limits of ``rows``."""
        return Cuts(self.top_k[rows], self.top_p[rows], self.min_p[rows])

    def are_set(self, vocab_size: int) -> NDArray[np.bool_]:
        """Which rows have a limit that can exclude something."""
        return (self.top_k < vocab_size) | (self.top_p < 1.0) | (self.min_p > 0.0)


def keep_only(logits: Tensor, token_ids: Tensor) -> None:
    """Exclude every token but ``token_ids``, in place. ``logits`` is one row, [V]."""
    kept = logits[token_ids]
    logits.fill_(_EXCLUDED)
    logits[token_ids] = kept


def exclude(logits: Tensor, token_ids: Tensor) -> None:
    """Exclude ``token_ids``, in place. ``logits`` is one row, [V]."""
    logits[token_ids] = _EXCLUDED


def least_kept(chances: Tensor, cuts: Cuts) -> Tensor:
    """Return the smallest chance that each row keeps; equal ones are kept together.

    min-p is applied first (relative to the most likely token), then top-k, then top-p over what
    is left: the smallest set of most likely tokens that holds at least that part of its mass.
    Rows whose answer lies beyond their largest chances are sorted whole.

    Shapes:
        chances: [R, V] float32, each row sums to 1
        returns: [R, 1]
    """
    vocab_size = chances.shape[1]
    least, is_known = _least_in(row_head(chances, min(_HEAD, vocab_size)), cuts, vocab_size)
    unknown = np.flatnonzero(~is_known.cpu().numpy())
    if len(unknown):
        places = torch.from_numpy(unknown).to(chances.device)
        ordered = row_head(chances[places], vocab_size)
        least[places] = _least_in(ordered, cuts.of(unknown), vocab_size)[0]
    return least


def _least_in(head: Tensor, cuts: Cuts, vocab_size: int) -> tuple[Tensor, Tensor]:
    """Answer ``least_kept`` from the largest chances, and say which rows that settles.

    Shapes:
        head: [R, M] falling
        returns: [R, 1], [R] bool
    """
    count, device = head.shape[1], head.device
    top_k, top_p, min_p = (torch.from_numpy(column)[:, None].to(device) for column in cuts)
    is_free = (top_k >= vocab_size) & (min_p == 0)
    by_rank = head.gather(1, top_k.clamp(max=count) - 1)
    least = torch.maximum(head[:, :1] * min_p, by_rank * (top_k <= count))  # [R, 1]
    masses = head.to(torch.float64)
    sums = masses.cumsum(dim=1)
    num_left = (head >= least).sum(dim=1, keepdim=True)
    left = torch.where(is_free, 1.0, sums.gather(1, num_left - 1))
    limits = torch.where(top_p < 1.0, top_p * left, torch.inf)
    num_kept = (sums - masses < limits).sum(dim=1, keepdim=True).clamp_(min=1)
    kept = torch.maximum(least, head.gather(1, torch.minimum(num_kept, num_left) - 1))
    is_reached = torch.where(top_p < 1.0, is_free & (sums[:, -1:] >= limits), top_k <= count)
    is_known = (head[:, -1:] < least) | is_reached | (count == vocab_size)
    return torch.where(top_p < 1.0, kept, least), is_known[:, 0]
