"""A decoder block: norms, residual, attention, feed-forward."""

from __future__ import annotations

from torch import Tensor, nn

from octavo.device.attention.interface import ForwardContext
from octavo.device.attention.prepare import Rotation
from octavo.device.layers.attention import SelfAttention
from octavo.device.layers.mlp import GatedMLP
from octavo.device.layers.norm import PreNorms


class DecoderBlock(nn.Module):
    """Pre-norm block. The residual stream is carried beside the hidden states."""

    def __init__(self, *, attention: SelfAttention, mlp: GatedMLP, norms: PreNorms) -> None:
        super().__init__()
        self.attention = attention
        self.mlp = mlp
        self.norms = norms

    def forward(
        self, rotation: Rotation, hidden: Tensor, residual: Tensor | None, ctx: ForwardContext
    ) -> tuple[Tensor, Tensor]:
        """Return the block's output, not yet added, and the residual stream.

        Shapes:
            hidden, residual: [T, hidden_size]
        """
        hidden, residual = self.norms.attention.add(hidden, residual)
        hidden = self.attention(rotation, hidden, ctx)
        hidden, residual = self.norms.mlp.add(hidden, residual)
        return self.mlp(hidden), residual
