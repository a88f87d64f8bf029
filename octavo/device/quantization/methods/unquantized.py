"""Plain weights in the model's dtype."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from octavo.device.ops.matmul import linear


class Unquantized:
    """One matrix per layer, as it is in the checkpoint."""

    def create_weights(
        self, layer: nn.Module, *, in_features: int, out_features: int, dtype: torch.dtype
    ) -> None:
        weight = torch.empty(out_features, in_features, dtype=dtype)
        layer.register_parameter("weight", nn.Parameter(weight, requires_grad=False))

    def process_after_load(self, layer: nn.Module) -> None:
        """Nothing: the product reads the matrix as it is."""

    def apply(self, layer: nn.Module, x: Tensor, bias: Tensor | None) -> Tensor:
        weight = layer.weight
        assert isinstance(weight, Tensor)
        return linear(x, weight, bias)


METHOD = Unquantized()
