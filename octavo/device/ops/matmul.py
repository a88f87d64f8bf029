"""Matrix product of activations and a weight."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``x @ weight.T + bias``.

    Shapes:
        x: [T, in]
        weight: [out, in]
        returns: [T, out]
    """
    return F.linear(x, weight, bias)
