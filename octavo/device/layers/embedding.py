"""Token embedding and the LM head."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from octavo.device.layers.build import Build
from octavo.device.ops.matmul import linear


class TokenEmbedding(nn.Module):
    """One row per token of the vocabulary."""

    def __init__(self, vocab_size: int, hidden_size: int, build: Build) -> None:
        super().__init__()
        weight = torch.empty(vocab_size, hidden_size, dtype=build.dtype)
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, token_ids: Tensor) -> Tensor:
        return functional.embedding(token_ids, self.weight)


class LMHead(nn.Module):
    """Hidden states to logits. With ``tied`` the embedding's matrix serves for both."""

    def __init__(self, vocab_size: int, hidden_size: int, build: Build) -> None:
        super().__init__()
        weight = torch.empty(vocab_size, hidden_size, dtype=build.dtype)
        self.weight = nn.Parameter(weight, requires_grad=False)

    @classmethod
    def tied(cls, embedding: TokenEmbedding) -> LMHead:
        """Return a head that shares the matrix of ``embedding``."""
        head = cls.__new__(cls)
        nn.Module.__init__(head)
        head.weight = embedding.weight
        return head

    def forward(self, hidden: Tensor) -> Tensor:
        return linear(hidden, self.weight).float()
