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
    """Answers per prompt."""
    max_tokens: int | None = 16
    """Most tokens to generate; None fills the context. [tokens]"""
    min_tokens: int = 0
    """No stop before this many. [tokens]"""
    temperature: float | None = None
    """0 is greedy; None is the model's default, else 1."""
    top_p: float | None = None
    top_k: int | None = None
    """0 or -1 is off."""
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: dict[int, float] | None = None
    """Added to the logits of token ids; -100 to 100."""
    bad_words: tuple[str, ...] = ()
    """Strings that are not generated."""
    allowed_token_ids: tuple[int, ...] | None = None
    stop: tuple[str, ...] = ()
    """Strings that end the answer."""
    stop_token_ids: tuple[int, ...] = ()
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    seed: int | None = None
    logprobs: int | None = None
    """Alternatives per token, 0 to ``max_logprobs``; 0 reports the sampled token alone."""
    prompt_logprobs: int | None = None
    skip_special_tokens: bool = True
    detokenize: bool = True
    """False leaves text empty and ignores stop strings."""
    truncate_prompt_tokens: int | None = None
    """Keep only the last so many prompt tokens; -1 keeps what fits. [tokens]"""
    output_kind: OutputKind = OutputKind.FINAL
