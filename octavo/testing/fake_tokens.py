"""What ``FakeWorker`` generates, as functions that a test can ask for the answer."""

from __future__ import annotations

import numpy as np

from octavo.contracts.output import FinishReason, TokenLogprobs
from octavo.contracts.request import EngineRequest
from octavo.contracts.runner import PromptLogprobs
from octavo.contracts.sampling import TokenSampling

_MULTIPLIER = 6_364_136_223_846_793_005
_INCREMENT = 1_442_695_040_888_963_407
_MASK = 2**63 - 1
_MAX_LOGPROBS = 20


def extend_prefix(prefixes: list[int], token_ids: list[int]) -> None:
    """Append to ``prefixes`` one number per further token, of all tokens up to it."""
    prefix = prefixes[-1] if prefixes else 0
    for token_id in token_ids[len(prefixes) :]:
        prefix = ((prefix ^ token_id) * _MULTIPLIER + _INCREMENT) & _MASK
        prefixes.append(prefix)


def next_token(prefix: int, num_output: int, sampling: TokenSampling, vocab_size: int) -> int:
    """Return the token after a prefix: not a stop token before ``min_tokens``."""
    number = ((prefix ^ sampling.seed) * _MULTIPLIER & _MASK) >> 20
    token_id = number % vocab_size
    while num_output < sampling.min_tokens and token_id in sampling.stop_token_ids:
        token_id = (token_id + 1) % vocab_size
    return token_id


def answer_alone(
    request: EngineRequest, *, vocab_size: int, max_model_len: int
) -> tuple[list[int], FinishReason]:
    """Return what a request gets when nothing disturbs it."""
    token_ids = request.prompt_token_ids + request.output_token_ids
    start = len(token_ids)
    sampling, prefixes = request.sampling, list[int]()
    while True:
        extend_prefix(prefixes, token_ids)
        num_output = len(token_ids) - len(request.prompt_token_ids)
        token_ids.append(next_token(prefixes[-1], num_output, sampling, vocab_size))
        if num_output >= sampling.min_tokens and token_ids[-1] in sampling.stop_token_ids:
            return token_ids[start:], FinishReason.STOP
        if len(token_ids) - start >= sampling.max_tokens or len(token_ids) >= max_model_len:
            return token_ids[start:], FinishReason.LENGTH


def token_logprobs(token_ids: list[int]) -> TokenLogprobs:
    """Return log-probabilities that name their token; alternatives count down from it."""
    tokens = np.array(token_ids, np.int32).reshape(-1, 1)
    columns = np.arange(1 + _MAX_LOGPROBS, dtype=np.int32)
    return TokenLogprobs(
        token_ids=tokens - columns,
        values=(-(tokens + columns) / 1000).astype(np.float32),
        ranks=tokens.reshape(-1) + 1,
    )


def prompt_logprobs(
    index: int, prompt_token_ids: list[int], start: int, count: int
) -> list[PromptLogprobs]:
    """Return what computing ``count`` tokens from ``start`` tells about the prompt, if anything."""
    predicted = prompt_token_ids[start + 1 : start + count + 1]
    return [PromptLogprobs(index, token_logprobs(predicted))] if predicted else []
