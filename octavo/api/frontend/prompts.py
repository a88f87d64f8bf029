"""What a prompt may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPrompt:
    """Text, and how to read it."""

    text: str
    add_special_tokens: bool = True
    """Begin with the model's begin-of-text token; a chat template has written it already."""
    param: str = "prompt"
    """Field of the request that errors name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensPrompt:
    """Token ids; ``text`` is only handed through to the output."""

    token_ids: list[int]
    text: str | None = None
    param: str = "prompt"
    """Field of the request that errors name."""


Prompt = str | list[int] | TextPrompt | TokensPrompt


def normalize_prompt(prompt: Prompt) -> TextPrompt | TokensPrompt:
    """Return ``prompt`` in one of its two explicit forms."""
    match prompt:
        case str():
            return TextPrompt(text=prompt)
        case list():
            return TokensPrompt(token_ids=prompt)
        case _:
            return prompt
