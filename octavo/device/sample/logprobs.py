"""Log-probabilities of the raw logits: of sampled tokens, and of prompts in pieces.

N positions, V vocabulary, K alternatives.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from octavo.contracts.output import TokenLogprobs

_PIECE_ELEMENTS = 1 << 22
"""Logits held at once for a prompt: 16 MiB."""


def token_logprobs(logits: Tensor, token_ids: Tensor, num_alternatives: int) -> TokenLogprobs:
    """Return log-probability and rank of ``token_ids``, and the most likely alternatives.

    Of equally likely tokens the one with the lower id comes first; a rank counts only those that
    are more likely.

    Shapes:
        logits: [N, V] raw, finite at their largest
        token_ids: [N] int64
    """
    values = logits.log_softmax(dim=1)  # [N, V]
    chosen = values.gather(1, token_ids[:, None])  # [N, 1]
    ranks = (values > chosen).sum(dim=1).add_(1)
    top_ids, top_values = _largest(values, min(num_alternatives, logits.shape[1]))
    ids = torch.cat((token_ids[:, None], top_ids), dim=1)
    return TokenLogprobs(
        token_ids=ids.to(torch.int32).cpu().numpy(),
        values=torch.cat((chosen, top_values), dim=1).cpu().numpy(),
        ranks=ranks.to(torch.int32).cpu().numpy(),
    )


def positions_at_once(vocab_size: int) -> int:
    """Prompt positions whose logits are held at once."""
    return max(1, _PIECE_ELEMENTS // vocab_size)


def prompt_logprobs(
    logits_in_pieces: Iterable[Tensor], token_ids: Tensor, num_alternatives: int
) -> TokenLogprobs | None:
    """Return log-probabilities of ``token_ids``, or None where a piece of logits is not finite.

    Shapes:
        logits_in_pieces: [n, V] each, N lines in all; made one by one
        token_ids: [N] int64
    """
    pieces: list[TokenLogprobs] = []
    begin = 0
    for logits in logits_in_pieces:
        if not logits.amax(dim=1).isfinite().all():
            return None
        end = begin + len(logits)
        pieces.append(token_logprobs(logits, token_ids[begin:end], num_alternatives))
        begin = end
    return TokenLogprobs(
        token_ids=np.concatenate([piece.token_ids for piece in pieces]),
        values=np.concatenate([piece.values for piece in pieces]),
        ranks=np.concatenate([piece.ranks for piece in pieces]),
    )


def _largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return ids and values of each row's ``count`` largest, lower ids first among equals.

    ``topk`` alone leaves open which of equal values it takes, and that may depend on ``count``,
    which the neighbours in the batch decide.
    """
    if count == 0:
        empty = values[:, :0]
        return empty.to(torch.int64), empty
    least = values.topk(count, dim=1).values[:, -1:]  # [N, 1]
    rows, ids = (values >= least).nonzero(as_tuple=True)  # ids rise within a row
    found = values[rows, ids]
    order = torch.argsort(found, descending=True, stable=True)
    order = order[torch.argsort(rows[order], stable=True)]
    begins = torch.searchsorted(rows, torch.arange(len(values), device=rows.device))
    places = order[begins[:, None] + torch.arange(count, device=rows.device)]  # [N, K]
    return ids[places], found[places]
