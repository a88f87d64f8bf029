"""What the engine and the device need to know about the sampling of one request."""

from __future__ import annotations

import msgspec

from octavo.contracts.codec import Message


class Penalties(Message, frozen=True):
    """Discourage tokens that occurred. Present only where one of them does something."""

    repetition: float = 1.0
    """Divides positive and multiplies negative logits of tokens in prompt or output."""
    presence: float = 0.0
    """Subtracted once from the logit of a token in the output."""
    frequency: float = 0.0
    """Subtracted per occurrence in the output."""


class TokenSampling(Message, frozen=True):
    """Sampling parameters in token space, complete and checked by the frontend.

    Text (stop strings, special tokens to skip) stays in the API process.
    """

    max_tokens: int
    """Most tokens to generate, counted without those emitted before a resumption. [tokens]"""
    min_tokens: int = 0
    """Stop token ids and the end of text are not sampled before this many. [tokens]"""
    temperature: float = 1.0
    """0 is greedy."""
    top_k: int = 0
    """0 is off."""
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    """Noise is a function of (seed, position); the frontend draws one where the user gave none."""
    stop_token_ids: list[int] = msgspec.field(default_factory=list)
    """The user's stop tokens and, unless ``ignore_eos``, the model's ends of text."""
    eos_token_ids: list[int] = msgspec.field(default_factory=list)
    """Subset of ``stop_token_ids`` that gives no ``stop_reason``."""
    penalties: Penalties | None = None
    logit_bias: dict[int, float] | None = None
    allowed_token_ids: list[int] | None = None
    bad_words_token_ids: list[list[int]] | None = None
    logprobs: int | None = None
    """Alternatives to report beside the sampled token; 0 reports the sampled one alone."""
    prompt_logprobs: int | None = None
