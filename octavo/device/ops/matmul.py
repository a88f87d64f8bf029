"""Matrix product of activations and a weight."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``x @ weight.T + bias``.

    Shapes:
        x: [T, in]
        weight: [out, in]
        returns: [T, out]
    """
    return functional.linear(x, weight, bias)
