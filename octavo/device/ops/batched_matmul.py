"""Batches of small matrix products, with the same bits for a row in any company.

A library chooses its kernel by the number of rows, but the kernels for "several" rows agree.
From how many rows on they do is found once, at start.
"""

from __future__ import annotations

import torch
from torch import Tensor

PIECE = 256
"""Context positions of one chain of sums. Longer products are cut at multiples of this."""

_CANDIDATES = (1, 2, 3, 4, 6, 8, 12, 16)
_MORE = (17, 24, 40, 64, 100, 192)
_BATCHES = (1, 3, 8)
_LENGTHS = (32, 208, PIECE)


def least_rows(head_size: int, dtype: torch.dtype) -> int | None:
    """Return the number of rows from which scores and sums have the same bits, or None.

    It compares a few sizes, in some milliseconds; the conformance suite compares many more.
    """
    generator = torch.Generator().manual_seed(0)
    batch, length = max(_BATCHES), max(_LENGTHS)
    queries = torch.randn(batch, max(_MORE), head_size, generator=generator).to(dtype)
    context = torch.randn(batch, length, head_size, generator=generator).to(dtype)
    weights = torch.rand(batch, max(_MORE), length, generator=generator).to(dtype)
    weights[:, :, min(_LENGTHS) :] = 0

    def bits(rows: int, count: int, length: int) -> tuple[Tensor, Tensor]:
        """First row of scores and of sums, computed in this company."""
        keys = context[:count, :length]
        scores = torch.bmm(queries[:count, :rows], keys.transpose(1, 2))
        sums = weighted_sum(weights[:count, :rows, :length], keys)
        return scores[0, 0, : min(_LENGTHS)], sums[0, 0]

    expected = bits(_MORE[-1], 1, length)
    for least in _CANDIDATES:
        rows = [least, *(count for count in _CANDIDATES if count > least), *_MORE]
        found = (bits(n, count, size) for n in rows for count in _BATCHES for size in _LENGTHS)
        if all(_equal(pair, expected) for pair in found):
            return least
    return None


def weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    """Return ``weights @ values``, piece by piece in order.

    Trailing zero weights change nothing, so rows of different lengths may be padded together.

    Shapes:
        weights: [b, rows, L]
        values: [b, L, D]
        returns: [b, rows, D]
    """
    length = values.shape[1]
    total = torch.bmm(weights[..., :PIECE], values[:, :PIECE])
    for start in range(PIECE, length, PIECE):
        piece = slice(start, min(start + PIECE, length))
        total.baddbmm_(weights[..., piece], values[:, piece])
    return total


def _equal(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> bool:
    return torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1])
