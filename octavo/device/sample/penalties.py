"""Repetition, presence and frequency penalties."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from octavo.contracts.sampling import Penalties


@dataclass(frozen=True, slots=True)
class Penalizer:
    """Applies penalties to one row of logits at a time.

    ``counts`` is zero between calls: only the entries of a row's own tokens are touched, so the
    cost follows the length of the text, not the size of the vocabulary.
    """

    counts: Tensor
    """[V] float32"""

    def apply(self, logits: Tensor, penalties: Penalties, tokens: Tensor, num_prompt: int) -> None:
        """Change ``logits`` in place: repetition first, then frequency, then presence.

        Shapes:
            logits: [V] float32
            tokens: [num_tokens] int64, prompt and output
        """
        if penalties.repetition != 1.0:
            seen = logits[tokens]
            factor = penalties.repetition
            # A token that occurs twice writes the same value twice.
            logits[tokens] = torch.where(seen > 0, seen / factor, seen * factor)
        output = tokens[num_prompt:]
        if output.numel() == 0 or not (penalties.frequency or penalties.presence):
            return
        self.counts.index_add_(0, output, torch.ones_like(output, dtype=torch.float32))
        seen = logits[output] - penalties.frequency * self.counts[output]
        logits[output] = seen - penalties.presence
        self.counts[output] = 0.0
