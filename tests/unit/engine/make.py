"""Requests for unit tests."""

from __future__ import annotations

from octavo.contracts.request import EngineRequest
from octavo.contracts.sampling import TokenSampling
from octavo.engine.request import Request


def make_request(
    prompt: list[int] | range = range(1, 11),
    *,
    sequence: int = 1,
    arrival_time: float = 0.0,
    priority: int = 0,
    cache_salt: str = "",
    output: tuple[int, ...] = (),
    max_model_len: int = 1000,
    max_tokens: int = 20,
    **sampling,
) -> Request:
    message = EngineRequest(
        request_id=f"r{sequence}",
        prompt_token_ids=list(prompt),
        sampling=TokenSampling(max_tokens=max_tokens, **sampling),
        arrival_time=arrival_time,
        priority=priority,
        cache_salt=cache_salt,
        output_token_ids=list(output),
    )
    return Request.of(message, sequence=sequence, max_model_len=max_model_len)
