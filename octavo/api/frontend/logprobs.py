"""Token log-probabilities in the user's shape."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from octavo.api.frontend.outputs import Logprob
from octavo.contracts.output import TokenLogprobs

Position = dict[int, Logprob]


class LogprobReader:
    """Reads rows of ``TokenLogprobs`` for one request, which asked for ``num_alternatives``."""

    def __init__(self, token_bytes: Mapping[int, bytes], num_alternatives: int) -> None:
        self._bytes_of = token_bytes
        self._width = 1 + num_alternatives

    def read(self, rows: TokenLogprobs) -> list[Position]:
        """One dictionary per row: the token that stands there, then alternatives as they fall."""
        token_ids = rows.token_ids[:, : self._width].tolist()
        values = rows.values[:, : self._width].tolist()
        ranks = rows.ranks.reshape(-1).tolist()
        return [self._position(*row) for row in zip(token_ids, values, ranks, strict=True)]

    def _position(self, token_ids: list[int], values: list[float], rank: int) -> Position:
        position: Position = {}
        ranks = chain((rank,), range(1, len(token_ids)))
        for token_id, value, place in zip(token_ids, values, ranks, strict=True):
            if token_id not in position:
                spelled = self._bytes_of[token_id]
                position[token_id] = Logprob(
                    value, place, spelled.decode("utf-8", "replace"), spelled
                )
        return position
