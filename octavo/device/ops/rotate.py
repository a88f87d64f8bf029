"""Rotary position encoding of queries and keys, both halves of a head paired."""

from __future__ import annotations

import torch
from torch import Tensor


def rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return ``heads`` rotated; dimensions behind the rotated ones pass unchanged.

    Shapes:
        heads: [T, H, D]
        cos: [T, 1, D], 1 where nothing rotates
        sin: [T, 1, rotary_size / 2]
        returns: [T, H, D], contiguous
    """
    half = sin.shape[-1]
    rotated = heads * cos
    rotated[..., :half].addcmul_(heads[..., half : 2 * half], sin, value=-1)
    rotated[..., half : 2 * half].addcmul_(heads[..., :half], sin)
    return rotated


def reference(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Multiply each pair by its rotation matrix."""
    half = sin.shape[-1]
    first, second, rest = heads[..., :half], heads[..., half : 2 * half], heads[..., 2 * half :]
    turn = cos[..., :half]
    return torch.cat((first * turn - second * sin, second * turn + first * sin, rest), dim=-1)
