"""What a weight format must do for a linear layer."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from octavo.device.ops.gate import Gate
from octavo.kit.extension import ExtensionPoint

QUANTIZATIONS = ExtensionPoint(
    group="octavo.quantization",
    package="octavo.device.quantization.methods",
    attribute="METHOD",
)


class QuantMethod(Protocol):
    """How linear layers keep their weights and multiply by them. One per start."""

    def create_weights(
        self, layer: nn.Module, *, in_features: int, out_features: int, dtype: torch.dtype
    ) -> None:
        """Register on ``layer`` the parameters that the checkpoint fills."""

    def process_after_load(self, layer: nn.Module) -> None:
        """Bring loaded parameters into the form that ``apply`` wants."""

    def apply(self, layer: nn.Module, x: Tensor, bias: Tensor | None) -> Tensor:
        """Return the layer's product.

        Shapes:
            x: [T, in_features]
            returns: [T, out_features]
        """

    def apply_gated(self, layer: nn.Module, x: Tensor, bias: Tensor | None, gate: Gate) -> Tensor:
        """Return ``gate(apply(layer, x, bias))``, perhaps as one kernel.

        Shapes:
            x: [T, in_features]
            returns: [T, out_features / 2]
        """


def quant_method(name: str | None) -> QuantMethod:
    """Return a new method called ``name``; None is plain weights."""
    method_class: type[QuantMethod] = QUANTIZATIONS.load(name or "unquantized")
    return method_class()
