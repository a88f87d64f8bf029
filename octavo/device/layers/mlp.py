"""Feed-forward layers."""

from __future__ import annotations

from torch import Tensor, nn

from octavo.device.layers.build import Build
from octavo.device.layers.linear import column_parallel, row_parallel
from octavo.device.ops.gate import gate_named


class GatedMLP(nn.Module):
    """``down(activation(gate(x)) * up(x))``, with gate and up as one product."""

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        build: Build,
        *,
        activation: str,
        bias: bool,
    ) -> None:
        super().__init__()
        sizes = (intermediate_size, intermediate_size)
        self.gate_up_proj = column_parallel(hidden_size, sizes, build, bias=bias)
        self.down_proj = row_parallel(intermediate_size, hidden_size, build, bias=bias)
        self._gate = gate_named(activation)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.down_proj(self._gate(self.gate_up_proj(hidden)))
