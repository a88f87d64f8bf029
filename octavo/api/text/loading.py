"""Read a tokenizer from a folder or a GGUF file."""

from __future__ import annotations

from pathlib import Path

from octavo.api.text.folder import read_folder
from octavo.api.text.gguf import parts_from_gguf
from octavo.api.text.tokenizer import Tokenizer
from octavo.checkpoint.gguf import read_gguf
from octavo.kit.errors import CheckpointError


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
