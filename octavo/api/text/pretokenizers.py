"""How a GGUF file's ``tokenizer.ggml.pre`` cuts text before byte-pair merges.

A GGUF file names its rule and does not carry it. Each rule is a list of patterns; every pattern
cuts the pieces that the one before it left.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Regex
from tokenizers.pre_tokenizers import ByteLevel, PreTokenizer, Sequence, Split

from octavo.kit.errors import Unsupported

_GPT2 = (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",)
_ONE_DIGIT_GPT2 = (r"\p{N}", *_GPT2)
_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
)
_QWEN35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
)
_DEFAULT = (
    r"[\p{P}\$\+<=>\^~\|]+",
    *_GPT2,
    r"\p{N}+",
    r"[0-9][0-9][0-9]",
)
_FALCON = (r"[\p{P}\$\+<=>\^~\|`]+", *_GPT2, r"[0-9][0-9][0-9]")
_DEEPSEEK_CODER = (
    r"[\r\n]",
    r"\s?\p{L}+",
    r"\s?\p{P}+",
    r"[\x{0800}-\x{9FA5}\x{AC00}-\x{D7FF}]+",
    r"\p{N}",
)
_DEEPSEEK3 = (
    r"\p{N}{1,3}",
    r"[\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
_TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
_GPT4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)


@dataclass(frozen=True, slots=True)
class PreRule:
    """What one name stands for."""

    patterns: tuple[str, ...]
    adds_bos: bool = False
    """Where the file does not say, prompts begin with the begin-of-text token."""
    ignores_merges: bool = False
    """A piece that is a token as a whole is not merged from its bytes."""

    def pre_tokenizer(self) -> PreTokenizer:
        """Cut by the patterns, then spell bytes as characters."""
        cuts: list[PreTokenizer] = [
            Split(Regex(pattern), behavior="isolated", invert=False) for pattern in self.patterns
        ]
        return Sequence([*cuts, ByteLevel(add_prefix_space=False, use_regex=False)])


_LLAMA3_RULE = PreRule(_LLAMA3, adds_bos=True, ignores_merges=True)

PRE_RULES: dict[str, PreRule] = {
    **dict.fromkeys(
        ("gpt-2", "mpt", "olmo", "jais", "trillion", "phi-2", "exaone4"),
        PreRule(_GPT2),
    ),
    **dict.fromkeys(
        ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"),
        PreRule(_ONE_DIGIT_GPT2),
    ),
    **dict.fromkeys(
        ("qwen2", "deepseek-r1-qwen", "stablelm2", "megrez"),
        PreRule(_QWEN2),
    ),
    **dict.fromkeys(
        ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "lfm2"), _LLAMA3_RULE
    ),
    **dict.fromkeys(("dbrx", "smaug-bpe"), PreRule(_LLAMA3)),
    "glm4": PreRule(_LLAMA3, ignores_merges=True),
    "qwen35": PreRule(_QWEN35),
    "default": PreRule(_DEFAULT),
    "falcon": PreRule(_FALCON),
    "deepseek-coder": PreRule(_DEEPSEEK_CODER),
    "deepseek-v3": PreRule(_DEEPSEEK3),
    "tekken": PreRule(_TEKKEN, adds_bos=True, ignores_merges=True),
    **dict.fromkeys(("gpt-4o", "llama4"), PreRule(_GPT4O)),
}


def find_pre_rule(name: str) -> PreRule:
    """Return the rule called ``name``.

    Raises:
        Unsupported: no rule has that name.
    """
    rule = PRE_RULES.get(name)
    if rule is None:
        known = ", ".join(sorted(PRE_RULES))
        raise Unsupported(
            f"tokenizer.ggml.pre={name!r}: must be one of {known}. "
            "Give a folder with the model's tokenizer.json through --tokenizer."
        )
    return rule
