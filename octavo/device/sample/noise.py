"""Random numbers as a function of (seed, position, token id): no generator state.

The bits of a token are those of the splitmix64 generator, seeded with a hash of (seed, position)
and advanced to the token id. So a token's noise does not depend on the batch, the row, the
vocabulary's cut or the device.

Source:
    Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators", section 4;
    Gumbel 1954 for the maximum of logits plus noise.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def noise_keys(seeds: NDArray[np.uint64], positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return one key per (seed, position).

    Shapes:
        seeds, positions: [R]
        returns: [R]
    """
    state = _mix64(seeds + np.uint64(_GOLDEN)) ^ positions.astype(np.uint64)
    return _mix64(state + np.uint64(_GOLDEN)).view(np.int64)


def gumbel(keys: Tensor, token_ids: Tensor) -> Tensor:
    """Return standard Gumbel noise of token ids under keys, which broadcast against them.

    Uniform numbers have 32 bits, evaluated in float64, so the largest noise is 22.9.

    Shapes:
        keys: int64
        token_ids: int64
        returns: float32
    """
    bits = token_ids * _signed(_GOLDEN) + keys
    for shift, factor in _MIX:
        bits ^= _shifted(bits, shift)
        bits *= _signed(factor)
    bits ^= _shifted(bits, 31)
    uniform = _shifted(bits, 32).to(torch.float64).add_(0.5).mul_(2.0**-32)
    return uniform.neg_().log1p_().neg_().log_().neg_().to(torch.float32)


def _mix64(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for shift, factor in _MIX:
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    return state ^ (state >> np.uint64(31))


def _shifted(bits: Tensor, count: int) -> Tensor:
    """Shift right without the sign, which torch's shift keeps."""
    return (bits >> count).bitwise_and_((1 << (64 - count)) - 1)


def _signed(value: int) -> int:
    """The int64 with the bits of a uint64."""
    return value - (1 << 64) if value >= 1 << 63 else value
