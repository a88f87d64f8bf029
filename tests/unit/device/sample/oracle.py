"""Sampling in plain numpy, one row at a time, each rule as its sentence says it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from octavo.contracts.sampling import Penalties, TokenSampling

_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Expected:
    token: int | None
    logprobs: NDArray[np.float64]
    rank: int
    top: list[int]


def edited(
    logits: NDArray[np.float32], sampling: TokenSampling, prompt: list[int], output: list[int]
) -> NDArray[np.float32]:
    out = logits.copy()
    vocab = range(len(out))
    allowed = sampling.allowed_token_ids
    out[[token for token in vocab if allowed is not None and token not in allowed]] = -math.inf
    for token, bias in (sampling.logit_bias or {}).items():
        if token in vocab:
            out[token] += np.float32(bias)
    out[[token for token in vocab if is_excluded(token, sampling, output)]] = -math.inf
    if sampling.penalties is not None:
        for token in vocab:
            out[token] = penalized(out[token], token, sampling.penalties, prompt, output)
    return out


def is_excluded(token: int, sampling: TokenSampling, output: list[int]) -> bool:
    if len(output) < sampling.min_tokens and token in sampling.stop_token_ids:
        return True
    heads = [word[:-1] for word in sampling.bad_words_token_ids or [] if word[-1] == token]
    return any(not head or output[-len(head) :] == head for head in heads)


def penalized(
    logit: np.float32, token: int, penalties: Penalties, prompt: list[int], output: list[int]
) -> np.float32:
    one = np.float32
    if token in prompt + output:
        repetition = one(penalties.repetition)
        logit = logit / repetition if logit > 0 else logit * repetition
    if count := output.count(token):
        logit -= one(penalties.frequency) * one(count)
        logit -= one(penalties.presence)
    return logit


def kept(scaled: NDArray[np.float64], sampling: TokenSampling) -> NDArray[np.bool_]:
    """Which tokens min-p, top-k and top-p leave, from logits after temperature."""
    chances = np.exp(scaled - scaled.max())
    keep = chances >= sampling.min_p
    left = np.sort(chances[keep])[::-1]
    if sampling.top_k and sampling.top_k < len(left):
        keep &= chances >= left[sampling.top_k - 1]
    if sampling.top_p < 1.0:
        total = chances[keep].sum()
        better = np.array([chances[keep & (chances > chance)].sum() for chance in chances])
        keep &= (better / total < sampling.top_p) | (chances == chances.max())
    return keep & np.isfinite(scaled)


def mix64(state: int) -> int:
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    return state ^ (state >> 31)


def noise(seed: int, position: int, token: int) -> float:
    golden = 0x9E3779B97F4A7C15
    key = mix64(((seed & _MASK) + golden) & _MASK) ^ position
    key = mix64((key + golden) & _MASK)
    bits = mix64((key + (token >> 1) * golden) & _MASK)
    half = bits >> 32 if token & 1 else bits & 0xFFFFFFFF
    return -math.log(((half ^ (1 << 31)) + 0.5) / 2**32)


def expected(
    logits: NDArray[np.float32], sampling: TokenSampling, prompt: list[int], output: list[int]
) -> Expected:
    wide = logits.astype(np.float64)
    logprobs = wide - wide.max() - math.log(np.exp(wide - wide.max()).sum())
    top = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
    token = draw(edited(logits, sampling, prompt, output), sampling, len(prompt) + len(output))
    rank = 0 if token is None else 1 + int((logits > logits[token]).sum())
    return Expected(token, logprobs, rank, top)


def draw(logits: NDArray[np.float32], sampling: TokenSampling, position: int) -> int | None:
    if logits.max() == -math.inf:
        return None
    if sampling.temperature == 0:
        return int(logits.argmax())
    scaled = (logits - logits.max()) / np.float32(sampling.temperature)
    keep = kept(scaled.astype(np.float64), sampling)
    scores = [
        scaled[token] - math.log(noise(sampling.seed, position, token))
        if keep[token]
        else -math.inf
        for token in range(len(logits))
    ]
    return int(np.argmax(scores))
