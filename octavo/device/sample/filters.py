"""What excludes tokens: allowed ids, bias, minimum length, bad words, min-p, top-k, top-p.

Each function works on its row alone, so a row gives the same bits in any batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.device.ops.row_sort import row_sort

_EXCLUDED = -math.inf


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

    top_k: NDArray[np.int32]
    """At least V where off."""
    top_p: NDArray[np.float64]
    min_p: NDArray[np.float32]

    def any(self, vocab_size: int) -> NDArray[np.bool_]:
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


def thresholds(scaled: Tensor, cuts: Cuts) -> Tensor:
    """Return the least scaled logit that each row keeps; equal ones are kept together.

    min-p is applied first (relative to the most likely token, which has scaled logit 0), then
    top-k, then top-p over the probabilities of what is left: the smallest set of most likely
    tokens that holds at least that mass.

    Shapes:
        scaled: [R, V] float32: logits minus the row's largest, over temperature
        returns: [R, 1]
    """
    ordered = row_sort(scaled)  # [R, V]
    device = scaled.device
    with np.errstate(divide="ignore"):
        least = torch.from_numpy(np.log(cuts.min_p))[:, None].to(device)  # [R, 1]
    last = torch.from_numpy(np.minimum(cuts.top_k, scaled.shape[1]) - 1).long()[:, None].to(device)
    least = torch.maximum(least, ordered.gather(1, last))
    masses = ordered.masked_fill(ordered < least, _EXCLUDED).softmax(dim=1)
    limits = torch.from_numpy(cuts.top_p)[:, None].to(device)
    masses = masses.to(torch.float64)
    # Mass of the tokens before each; limits of 1 keep all, whatever the sums round to.
    before = masses.cumsum(dim=1).sub_(masses)
    num_kept = ((before < limits) | (limits >= 1.0)).sum(dim=1, keepdim=True).clamp_(min=1)
    return torch.maximum(least, ordered.gather(1, num_kept - 1))
