"""What a user may give as a prompt."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """Text, and whether the tokenizer adds the tokens that begin a text."""

    text: str
    add_special_tokens: bool = True


@dataclass(frozen=True, slots=True)
class TokensPrompt:
    """Token ids."""

    token_ids: list[int]


Prompt = str | list[int] | TokensPrompt | TextPrompt
