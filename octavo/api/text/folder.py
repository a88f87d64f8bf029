"""A tokenizer from a folder of Hugging Face files."""

from __future__ import annotations

import json
from pathlib import Path

import tokenizers
from tokenizers import AddedToken
from tokenizers.processors import TemplateProcessing

from octavo.api.text.sentencepiece import PieceKind, build_sentencepiece, read_sentencepiece
from octavo.api.text.tokenizer import TokenizerParts
from octavo.kit.errors import CheckpointError

_ROLES = (
    "bos_token",
    "eos_token",
    "unk_token",
    "pad_token",
    "sep_token",
    "cls_token",
    "mask_token",
)

Json = dict[str, object]


def read_folder(folder: Path) -> TokenizerParts:
    """Read ``tokenizer.json`` (or ``tokenizer.model``) and the files beside it.

    Raises:
        CheckpointError: there is no tokenizer, or a file is cut off or foreign.
    """
    config = _read_json(folder / "tokenizer_config.json")
    special = _special_tokens(config, _read_json(folder / "special_tokens_map.json"))
    return TokenizerParts(
        core=_core(folder, config, special),
        special_tokens=special,
        chat_templates=_chat_templates(folder, config),
    )


def _core(folder: Path, config: Json, special: dict[str, str]) -> tokenizers.Tokenizer:
    if (fast := folder / "tokenizer.json").is_file():
        try:
            core = tokenizers.Tokenizer.from_str(fast.read_text(encoding="utf-8"))
        except Exception as error:  # the library raises nothing narrower
            raise CheckpointError(
                f"{fast}: is no tokenizer ({error}). Fetch the file again."
            ) from error
    elif (slow := folder / "tokenizer.model").is_file():
        core = _from_sentencepiece(slow, config, special)
    else:
        raise CheckpointError(
            f"{folder}: has neither tokenizer.json nor tokenizer.model. "
            "Give the folder that has one through --tokenizer."
        )
    _add_listed(core, config)
    return core


def _from_sentencepiece(path: Path, config: Json, special: dict[str, str]) -> tokenizers.Tokenizer:
    pieces = read_sentencepiece(path)
    core = build_sentencepiece(pieces)
    for kind, is_special in ((PieceKind.CONTROL, True), (PieceKind.USER_DEFINED, False)):
        marked = [
            AddedToken(text, special=is_special, normalized=False)
            for text, own in zip(pieces.texts, pieces.kinds, strict=True)
            if own == kind
        ]
        (core.add_special_tokens if is_special else core.add_tokens)(marked)
    bos, eos = special.get("bos_token", "<s>"), special.get("eos_token", "</s>")
    before = [bos] if config.get("add_bos_token", True) else []
    after = [eos] if config.get("add_eos_token", False) else []
    ids = {token: core.token_to_id(token) for token in (*before, *after)}
    if None in ids.values():
        raise CheckpointError(
            f"{path}: {bos!r} or {eos!r} is no token of it. Set bos_token and eos_token in "
            "tokenizer_config.json."
        )
    core.post_processor = TemplateProcessing(
        single=[*before, "$A", *after], special_tokens=list(ids.items())
    )
    return core


def _add_listed(core: tokenizers.Tokenizer, config: Json) -> None:
    """Add the tokens that only ``tokenizer_config.json`` lists, in order of their ids."""
    listed = config.get("added_tokens_decoder")
    if not isinstance(listed, dict):
        return
    known = core.get_added_tokens_decoder()
    for number, token in sorted(listed.items(), key=lambda item: int(item[0])):
        if int(number) in known or not isinstance(token, dict):
            continue
        content, is_special = str(token.get("content")), bool(token.get("special"))
        added = AddedToken(
            content,
            special=is_special,
            normalized=bool(token.get("normalized", not is_special)),
            lstrip=bool(token.get("lstrip")),
            rstrip=bool(token.get("rstrip")),
            single_word=bool(token.get("single_word")),
        )
        (core.add_special_tokens if is_special else core.add_tokens)([added])
        if core.token_to_id(content) != int(number):
            raise CheckpointError(
                f"tokenizer_config.json: added token {content!r} has id {number}, but the "
                f"vocabulary gives it {core.token_to_id(content)}. Fetch both files again."
            )


def _special_tokens(*sources: Json) -> dict[str, str]:
    special: dict[str, str] = {}
    for source in sources:
        for role in _ROLES:
            value = source.get(role)
            if isinstance(value, dict):
                value = value.get("content")
            if isinstance(value, str):
                special.setdefault(role, value)
    return special


def _chat_templates(folder: Path, config: Json) -> dict[str, str]:
    """The newest place wins: ``chat_template.jinja``, ``chat_template.json``, the config."""
    templates = _named(config.get("chat_template"))
    templates |= _named(_read_json(folder / "chat_template.json").get("chat_template"))
    if (jinja := folder / "chat_template.jinja").is_file():
        templates["default"] = jinja.read_text(encoding="utf-8")
    for extra in sorted((folder / "additional_chat_templates").glob("*.jinja")):
        templates[extra.stem] = extra.read_text(encoding="utf-8")
    return templates


def _named(value: object) -> dict[str, str]:
    if isinstance(value, str):
        return {"default": value}
    if isinstance(value, list):
        return {str(item["name"]): str(item["template"]) for item in value}
    return {}


def _read_json(path: Path) -> Json:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path}: is no JSON ({error}). Fetch the file again.") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: must hold a JSON object. Fetch the file again.")
    return value
