"""Sampling parameters as a user gives them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class OutputKind(StrEnum):
    """How much each ``RequestOutput`` of a stream carries."""

    DELTA = "delta"
    """What is new since the last one."""
    FINAL = "final"
    """One output, at the end, with everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How to generate, in the words of vLLM and the OpenAI API.

    Values are checked where a request enters (``InputProcessor``), which names the field, the
    value and the bound. None means the model's default, or off.
    """

    n: int = 1
    """Answers per prompt, 1 to 128."""
    max_tokens: int | None = 16
    """Most tokens to generate; None fills the context. [tokens]"""
    min_tokens: int = 0
    """No stop before this many, stop strings included; at most ``max_tokens``. [tokens]"""
    temperature: float | None = None
    """0 to 100; below 1e-5 it is greedy. None is the model's default, else 1."""
    top_p: float | None = None
    """Above 0, to 1: tokens of the smallest set with this probability."""
    top_k: int | None = None
    """0 or -1 is off."""
    min_p: float | None = None
    """0 to 1: least probability, as a part of the largest."""
    repetition_penalty: float | None = None
    """0.01 to 100, of tokens in prompt or answer; 1 is off."""
    presence_penalty: float = 0.0
    """-2 to 2, once for each token in the answer."""
    frequency_penalty: float = 0.0
    """-2 to 2, for each time a token is in the answer."""
    logit_bias: dict[int, float] | None = None
    """Added to the logits of up to 4096 token ids; -100 to 100."""
    bad_words: tuple[str, ...] = ()
    """Up to 256 strings that are not generated, at the start of a text or after a space."""
    allowed_token_ids: tuple[int, ...] | None = None
    """The only tokens that are generated."""
    stop: tuple[str, ...] = ()
    """Up to 32 strings of 512 characters that end the answer; the first to be complete does."""
    stop_token_ids: tuple[int, ...] = ()
    """Up to 256 tokens that end the answer."""
    include_stop_str_in_output: bool = False
    """The text ends with the stop string, or the stop token's text."""
    ignore_eos: bool = False
    """The model's end of text does not end the answer."""
    seed: int | None = None
    """Of 64 bits; answers with the same seed, prompt and parameters are the same."""
    logprobs: int | None = None
    """Alternatives per token, 0 to ``max_logprobs``; 0 reports the sampled token alone."""
    prompt_logprobs: int | None = None
    skip_special_tokens: bool = True
    detokenize: bool = True
    """False leaves text empty and ignores stop strings."""
    truncate_prompt_tokens: int | None = None
    """Keep only the last so many prompt tokens; -1 keeps what fits. [tokens]"""
    output_kind: OutputKind = OutputKind.FINAL
