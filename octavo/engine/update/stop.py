"""Stop conditions in token space."""

from __future__ import annotations

from octavo.contracts.output import FinishReason
from octavo.engine.request import Request


def finish_reason(request: Request, token_id: int) -> FinishReason | None:
    """Return why a request ends with ``token_id``, its last one, or None when it goes on."""
    length = len(request.token_ids)
    if token_id in request.stop_token_ids and length > request.min_tokens:
        return FinishReason.STOP
    return FinishReason.LENGTH if length >= request.max_tokens else None


def stop_reason(request: Request) -> int | None:
    """Return the stop token that ended a request, unless it is the model's end of text."""
    token_id = request.token_ids[-1]
    return None if token_id in request.sampling.eos_token_ids else token_id
