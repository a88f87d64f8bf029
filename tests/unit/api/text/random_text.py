"""Random text of many scripts, with what tokenizers stumble over."""

from __future__ import annotations

from random import Random

_RANGES = [
    (0x20, 0x7F),  # ASCII
    (0xA0, 0x250),  # Latin
    (0x370, 0x530),  # Greek, Cyrillic
    (0x590, 0x700),  # Hebrew, Arabic
    (0x900, 0xD00),  # Indic
    (0xE00, 0xF00),  # Thai, Lao
    (0x3040, 0x3100),  # kana
    (0x4E00, 0x9FA6),  # Han
    (0xAC00, 0xD7A4),  # Hangul
    (0x1F300, 0x1FA00),  # emoji
]
_SPACES = [" ", "\t", "\n", "\r", "  ", "\n\n", "\u3000", "\xa0", "\u2003", "\u200b", "\x85"]
_PIECES = [
    "👨‍👩‍👧", "🇯🇵", "e\u0301", "ﬁ", "\u212b", "½", "²", "٣", "\u0966", "Ⅷ", "\U0001d7d8", "\x00",
    "\x7f", "\ufeff", "\ufffd", "hello", "World", " the", " of", "don't", "I'LL", "we've", "'S",
    "->", "...", "--", "\t\t", "    ",
    "def f(x):\n    return x**2\n", '<div class="a">', "http://x.y/z?q=1", "==", "!=",
]  # fmt: skip
_SPECIAL = [
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "</tool_call>", "<|im_start",
    "im_end|>", "<repo_name>", "<|fim_prefix|>", "<s>", "</s>", "[INST]",
]  # fmt: skip


def random_text(rng: Random, *, digits: bool = True) -> str:
    """Up to 60 pieces of one to all kinds."""
    kinds = [*range(len(_RANGES)), "space", "piece", "special", *(["digits"] if digits else [])]
    chosen = rng.sample(kinds, rng.randint(1, 5)) if rng.random() < 0.8 else kinds
    text = "".join(_piece(rng, rng.choice(chosen)) for _ in range(rng.randrange(60)))
    return text if digits else "".join(c for c in text if not c.isnumeric())


def _piece(rng: Random, kind: int | str) -> str:
    match kind:
        case "space":
            return rng.choice(_SPACES)
        case "piece":
            return rng.choice(_PIECES)
        case "special":
            return rng.choice(_SPECIAL)
        case "digits":
            return str(rng.randrange(10 ** rng.randint(1, 9)))
        case int():
            return chr(rng.randrange(*_RANGES[kind]))
        case _:
            raise AssertionError(kind)
