"""Random numbers as a function of (seed, position, token id): no generator state.

Tokens ``2i`` and ``2i + 1`` take the low and the high half of the bits that splitmix64, seeded
with a hash of (seed, position), gives for ``i``. So a token's noise does not depend on the
batch, the row, the tokens beside it or the device.

Noise is exponential: the token with the largest chance over noise is drawn with exactly its
chance. That is the same as the largest of logits plus Gumbel noise, which is its logarithm.

Source:
    Efraimidis and Spirakis 2006, "Weighted random sampling with a reservoir", section 2.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.device.ops.token_bits import GOLDEN, mix64, token_bits


def noise_keys(seeds: NDArray[np.uint64], positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return one key per (seed, position).

    Shapes:
        seeds, positions: [R]
        returns: [R]
    """
    state = mix64(seeds + np.uint64(GOLDEN)) ^ positions.astype(np.uint64)
    return mix64(state + np.uint64(GOLDEN)).view(np.int64)


def noise_of(keys: Tensor, token_ids: Tensor) -> Tensor:
    """Return the noise of some tokens, each under its own key.

    Shapes:
        keys, token_ids: [C] int64
        returns: [C] float32
    """
    bits = token_bits(keys, token_ids >> 1)
    return _exponential((bits >> ((token_ids & 1) * 32)).to(torch.int32))


def noise_of_all(keys: Tensor, vocab_size: int) -> Tensor:
    """Return the noise of every token under each key.

    Shapes:
        keys: [R] int64
        returns: [R, vocab_size] float32
    """
    pairs = torch.arange((vocab_size + 1) // 2, device=keys.device)
    bits = token_bits(keys[:, None], pairs)  # [R, pairs]
    return _exponential(bits.view(torch.int32)[:, :vocab_size])  # low half first


def _exponential(bits: Tensor) -> Tensor:
    """Turn 32 bits, an int32, into exponential noise; never 0. Evaluated in float64."""
    uniform = bits.to(torch.float64).add_(2.0**31 + 0.5).mul_(2.0**-32)
    return uniform.log_().to(torch.float32).neg_()
