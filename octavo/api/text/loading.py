"""Read a tokenizer from a folder or a GGUF file."""

from __future__ import annotations

from pathlib import Path

from octavo.api.text.folder import read_folder
from octavo.api.text.gguf import parts_from_gguf
from octavo.api.text.tokenizer import Tokenizer
from octavo.checkpoint.gguf import read_gguf
from octavo.config.octavo import OctavoConfig
from octavo.kit.errors import CheckpointError, ConfigError


def load_tokenizer(path: str) -> Tokenizer:
    """Return the tokenizer at ``path``: a folder, or a .gguf file.

    Raises:
        CheckpointError: there is none, or its files are cut off or foreign.
        Unsupported: it is of a kind that octavo does not have.
    """
    place = Path(path)
    if place.is_dir():
        return Tokenizer(read_folder(place))
    if place.suffix == ".gguf" and place.is_file():
        return Tokenizer(parts_from_gguf(read_gguf(place).metadata, source=place.name))
    raise CheckpointError(
        f"tokenizer {path!r}: must be a folder with tokenizer files or a .gguf file. "
        "Name one with --tokenizer."
    )


def load_fitting_tokenizer(config: OctavoConfig) -> Tokenizer:
    """Return the tokenizer of ``config``, whose every id is a row of the model's embedding.

    The model may have more rows than the tokenizer has ids: many pad them.

    Raises:
        CheckpointError, Unsupported: as ``load_tokenizer``.
        ConfigError: it has ids that the model does not.
    """
    path, model = config.frontend.tokenizer, config.model
    tokenizer = load_tokenizer(path)
    if tokenizer.largest_id >= model.vocab_size:
        raise ConfigError(
            "tokenizer",
            path,
            want=f"has token ids up to {tokenizer.largest_id}, but {model.name} knows only those "
            f"under {model.vocab_size}",
            fix="Use --tokenizer with the tokenizer that the model was made with.",
        )
    return tokenizer
