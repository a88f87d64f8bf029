"""Sampling in plain numpy, one row at a time, each rule as its sentence says it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from octavo.contracts.sampling import TokenSampling

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
    if sampling.allowed_token_ids is not None:
        for token in vocab:
            if token not in sampling.allowed_token_ids:
                out[token] = -math.inf
    for token, bias in (sampling.logit_bias or {}).items():
        if token in vocab:
            out[token] += np.float32(bias)
    if len(output) < sampling.min_tokens:
        for token in sampling.stop_token_ids:
            if token in vocab:
                out[token] = -math.inf
    for word in sampling.bad_words_token_ids or []:
        head = word[:-1]
        if word[-1] in vocab and (not head or output[-len(head) :] == head):
            out[word[-1]] = -math.inf
    if sampling.penalties is not None:
        one = np.float32
        for token in vocab:
            if token in prompt + output:
                repetition = one(sampling.penalties.repetition)
                out[token] = out[token] / repetition if out[token] > 0 else out[token] * repetition
            if count := output.count(token):
                out[token] -= one(sampling.penalties.frequency) * one(count)
                out[token] -= one(sampling.penalties.presence)
    return out


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
    bits = mix64((key + token * golden) & _MASK) >> 32
    return -math.log(-math.log1p(-(bits + 0.5) / 2**32))


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
        scaled[token] + np.float32(noise(sampling.seed, position, token))
        if keep[token]
        else -math.inf
        for token in range(len(logits))
    ]
    return int(np.argmax(scores))
