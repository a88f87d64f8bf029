"""64 hashed bits for each number of a sequence, as splitmix64 gives them.

Source:
    Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators", section 4.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def token_bits(keys: Tensor, numbers: Tensor) -> Tensor:
    """Return the bits of ``numbers`` under ``keys``, which broadcast against each other.

    Shapes:
        keys, numbers: int64
        returns: int64
    """
    if keys.device.type == "cpu":
        # numpy shifts without sign and in place: 3x over torch at 2 x 24576 and one thread
        state = numbers.numpy().view(np.uint64) * np.uint64(GOLDEN)
        state = state + keys.numpy().view(np.uint64)
        return torch.from_numpy(mix64(state).view(np.int64))
    return reference(keys, numbers)


def reference(keys: Tensor, numbers: Tensor) -> Tensor:
    """Hash in torch, whose integers have a sign."""
    bits = numbers * _signed(GOLDEN) + keys
    for shift, factor in _MIX:
        bits ^= _shifted(bits, shift)
        bits *= _signed(factor)
    return bits ^ _shifted(bits, 31)


def mix64(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble ``state`` in place and return it."""
    shifted = np.empty_like(state)
    for shift, factor in _MIX:
        np.right_shift(state, np.uint64(shift), out=shifted)
        state ^= shifted
        state *= np.uint64(factor)
    np.right_shift(state, np.uint64(31), out=shifted)
    state ^= shifted
    return state


def _shifted(bits: Tensor, count: int) -> Tensor:
    """Shift right without the sign, which torch's shift keeps."""
    return (bits >> count).bitwise_and_((1 << (64 - count)) - 1)


def _signed(value: int) -> int:
    """The int64 with the bits of a uint64."""
    return value - (1 << 64) if value >= 1 << 63 else value
