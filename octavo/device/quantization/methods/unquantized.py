"""Plain weights in the model's dtype."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from octavo.device.ops.gate import Gate
from octavo.device.ops.matmul import PackedWeight, Packer, gated_linear, linear


class Unquantized:
    """One matrix per layer; ``packed`` replaces it once it is loaded."""

    def __init__(self) -> None:
        self._packer = Packer()
        self._packed: dict[nn.Module, PackedWeight] = {}

    def create_weights(
        self, layer: nn.Module, *, in_features: int, out_features: int, dtype: torch.dtype
    ) -> None:
        weight = torch.empty(out_features, in_features, dtype=dtype)
        layer.register_parameter("weight", nn.Parameter(weight, requires_grad=False))

    def process_after_load(self, layer: nn.Module) -> None:
        weight = layer.weight
        assert isinstance(weight, Tensor)
        packed = self._packer.pack(weight.detach())
        layer.register_parameter("weight", None)
        layer.register_buffer("packed_weight", packed.weight, persistent=False)
        self._packed[layer] = packed

    def apply(self, layer: nn.Module, x: Tensor, bias: Tensor | None) -> Tensor:
        return linear(x, self._packed[layer], bias)

    def apply_gated(self, layer: nn.Module, x: Tensor, bias: Tensor | None, gate: Gate) -> Tensor:
        return gated_linear(x, self._packed[layer], bias, gate)


METHOD = Unquantized
