"""A tokenizer from the metadata of a GGUF file."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import tokenizers
from tokenizers import AddedToken, decoders, models
from tokenizers.processors import TemplateProcessing

from octavo.api.text.pretokenizers import find_pre_rule
from octavo.api.text.sentencepiece import PieceKind, Pieces, build_sentencepiece
from octavo.api.text.tokenizer import TokenizerParts
from octavo.kit.errors import CheckpointError, Unsupported

_log = logging.getLogger(__name__)

_ROLES = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}


def parts_from_gguf(metadata: Mapping[str, object], *, source: str) -> TokenizerParts:
    """Build the tokenizer that ``metadata`` describes; ``source`` names the file in errors.

    Raises:
        CheckpointError: a key is missing or has the wrong type or length.
        Unsupported: the tokenizer is of another kind than byte-level BPE or SentencePiece.
    """
    facts = _Facts(metadata, source)
    kind = facts.text("tokenizer.ggml.model")
    match kind:
        case "gpt2":
            core, adds_bos = _built(facts, _build_bpe)
        case "llama":
            core, adds_bos = _built(facts, _build_sentencepiece)
        case _:
            raise Unsupported(
                f"{source}: tokenizer.ggml.model={kind!r}, must be gpt2 or llama. "
                "Give a folder with the model's tokenizer.json through --tokenizer."
            )
    special = {
        role: facts.tokens[number]
        for role, key in _ROLES.items()
        if (number := facts.find_id(key)) is not None
    }
    _add_markers(core, facts, special, adds_bos=adds_bos)
    return TokenizerParts(core=core, special_tokens=special, chat_templates=facts.chat_templates())


class _Facts:
    """Typed access to the keys under ``tokenizer.``."""

    def __init__(self, metadata: Mapping[str, object], source: str) -> None:
        self._metadata = metadata
        self.source = source
        self.tokens = self.strings("tokenizer.ggml.tokens")
        self.kinds = self._numbers("tokenizer.ggml.token_type", [int(PieceKind.NORMAL)])

    def text(self, key: str, default: str | None = None) -> str:
        value = self._metadata.get(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, "a string")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        return bool(self._metadata.get(f"tokenizer.ggml.{key}", default))

    def find_id(self, key: str) -> int | None:
        value = self._metadata.get(f"tokenizer.ggml.{key}")
        if value is None:
            return None
        if not isinstance(value, int) or not 0 <= value < len(self.tokens):
            raise self._wrong(f"tokenizer.ggml.{key}", f"an id below {len(self.tokens)}")
        return value

    def strings(self, key: str) -> list[str]:
        value = self._metadata.get(key)
        if not isinstance(value, Sequence) or isinstance(value, str) or not value:
            raise self._wrong(key, "a list of strings")
        return list(value)

    def scores(self) -> list[float]:
        return self._numbers("tokenizer.ggml.scores", [])

    def chat_templates(self) -> dict[str, str]:
        prefix = "tokenizer.chat_template"
        return {
            key[len(prefix) + 1 :] or "default": value
            for key, value in self._metadata.items()
            if (key == prefix or key.startswith(prefix + ".")) and isinstance(value, str)
        }

    def _numbers(self, key: str, default: list[float]) -> list[float]:
        value = self._metadata.get(key)
        if value is None and default:
            return default * len(self.tokens)
        try:
            numbers: list[float] = [*value]  # type: ignore[misc]  # not a list: caught below
        except TypeError:
            raise self._wrong(key, "a list of numbers") from None
        if len(numbers) != len(self.tokens):
            raise self._wrong(key, f"of the length of the tokens, {len(self.tokens)}")
        return numbers

    def _wrong(self, key: str, want: str) -> CheckpointError:
        return CheckpointError(
            f"{self.source}: {key} is missing or of another form, must be {want}. "
            "Fetch the file again, or give another tokenizer through --tokenizer."
        )


_Built = tuple[tokenizers.Tokenizer, bool]
"""The tokenizer, and whether prompts begin with the begin-of-text token unless the file says no."""


def _built(facts: _Facts, build: Callable[[_Facts], _Built]) -> _Built:
    try:
        return build(facts)
    except (CheckpointError, Unsupported):
        raise
    except Exception as error:  # the library raises nothing narrower
        raise CheckpointError(
            f"{facts.source}: its tokenizer does not hold together ({error}). "
            "Fetch the file again, or give another tokenizer through --tokenizer."
        ) from error


def _build_bpe(facts: _Facts) -> _Built:
    name = facts.text("tokenizer.ggml.pre", "")
    if not name:
        _log.warning("%s does not say how to cut text: cut as llama.cpp does then", facts.source)
    rule = find_pre_rule(name or "default")
    merges = [_halves(merge) for merge in facts.strings("tokenizer.ggml.merges")]
    core = tokenizers.Tokenizer(
        models.BPE(
            vocab={token: number for number, token in enumerate(facts.tokens)},
            merges=merges,
            ignore_merges=rule.ignores_merges,
        )
    )
    core.pre_tokenizer = rule.pre_tokenizer()
    core.decoder = decoders.ByteLevel()
    return core, rule.adds_bos


def _halves(merge: str) -> tuple[str, str]:
    # a space parts the halves, and the first half may itself begin with one
    left, _, right = merge[1:].partition(" ")
    return merge[:1] + left, right


def _build_sentencepiece(facts: _Facts) -> _Built:
    pieces = Pieces(
        texts=facts.tokens,
        scores=facts.scores(),
        kinds=[PieceKind(int(kind)) for kind in facts.kinds],
        adds_space_prefix=facts.flag("add_space_prefix", default=True),
    )
    return build_sentencepiece(pieces), True


def _add_markers(
    core: tokenizers.Tokenizer, facts: _Facts, special: dict[str, str], *, adds_bos: bool
) -> None:
    """Mark control and user-defined tokens; add begin and end of text where the file says so."""
    core.add_special_tokens(_added(facts, PieceKind.CONTROL, special=True))
    core.add_tokens(_added(facts, PieceKind.USER_DEFINED, special=False))
    bos, eos = special.get("bos_token"), special.get("eos_token")
    before = [bos] if bos and facts.flag("add_bos_token", default=adds_bos) else []
    after = [eos] if eos and facts.flag("add_eos_token", default=False) else []
    core.post_processor = TemplateProcessing(
        single=[*before, "$A", *after],
        special_tokens=[(token, core.token_to_id(token)) for token in {*before, *after}],
    )


def _added(facts: _Facts, wanted: PieceKind, *, special: bool) -> list[AddedToken]:
    return [
        AddedToken(token, special=special, normalized=False)
        for token, kind in zip(facts.tokens, facts.kinds, strict=True)
        if kind == wanted and token
    ]
