"""Feed-forward layers."""

from __future__ import annotations

from torch import Tensor, nn

from octavo.config.model import ModelConfig
from octavo.device.layers.build import Build
from octavo.device.layers.linear import column_parallel, row_parallel
from octavo.device.ops.gate import gate_named


class GatedMLP(nn.Module):
    """``down(activation(gate(x)) * up(x))``, with gate and up as one product."""

    def __init__(self, config: ModelConfig, build: Build) -> None:
        super().__init__()
        hidden, inner, bias = config.hidden_size, config.intermediate_size, config.mlp_bias
        self.gate_up_proj = column_parallel(hidden, (inner, inner), build, bias=bias)
        self.down_proj = row_parallel(inner, hidden, build, bias=bias)
        self._gate = gate_named(config.hidden_act)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.down_proj(self.gate_up_proj.gated(hidden, self._gate))
