"""Token embedding and the LM head."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from octavo.device.layers.build import Build
from octavo.device.layers.linear import Linear


class TokenEmbedding(nn.Module):
    """One row per token of the vocabulary."""

    def __init__(self, vocab_size: int, hidden_size: int, build: Build) -> None:
        super().__init__()
        weight = torch.empty(vocab_size, hidden_size, dtype=build.dtype)
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, token_ids: Tensor) -> Tensor:
        return functional.embedding(token_ids, self.weight)


class LMHead(Linear):
    """Hidden states to logits. Given an embedding, it multiplies by that one's matrix.

    The method may keep a copy of that matrix in another layout.
    """

    def __init__(
        self, vocab_size: int, hidden_size: int, build: Build, *, tied: TokenEmbedding | None
    ) -> None:
        super().__init__(hidden_size, (vocab_size,), build, bias=False)
        if tied is not None:
            self.weight = tied.weight

    def forward(self, hidden: Tensor) -> Tensor:
        """Return float32 logits."""
        return super().forward(hidden).float()
