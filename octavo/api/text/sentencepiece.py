"""SentencePiece vocabularies: read ``tokenizer.model``, build the tokenizer they describe."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers

from octavo.kit.errors import CheckpointError, Unsupported


class PieceKind(IntEnum):
    """What a piece is; GGUF files use the same numbers."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """A SentencePiece vocabulary, in order of ids."""

    texts: list[str]
    scores: list[float]
    kinds: list[PieceKind]
    adds_space_prefix: bool = True
    removes_extra_spaces: bool = False
    is_unigram: bool = False


def build_sentencepiece(pieces: Pieces) -> tokenizers.Tokenizer:
    """Return a tokenizer with the vocabulary's merges, byte fallback and spaces.

    Text after a marked token begins with a space, as text at the start does; the original
    adds none after user-defined tokens.
    """
    unknown = pieces.kinds.index(PieceKind.UNKNOWN) if PieceKind.UNKNOWN in pieces.kinds else None
    has_bytes = PieceKind.BYTE in pieces.kinds
    if pieces.is_unigram:
        model: models.Model = models.Unigram(
            list(zip(pieces.texts, pieces.scores, strict=True)), unknown, byte_fallback=has_bytes
        )
    else:
        model = models.BPE(
            vocab={text: number for number, text in enumerate(pieces.texts)},
            merges=_merges(pieces),
            unk_token=None if unknown is None else pieces.texts[unknown],
            fuse_unk=True,
            byte_fallback=has_bytes,
        )
    core = tokenizers.Tokenizer(model)
    core.normalizer = normalizers.Sequence(
        [
            *([normalizers.Replace(Regex(" {2,}"), " ")] if pieces.removes_extra_spaces else []),
            *([normalizers.Prepend("▁")] if pieces.adds_space_prefix else []),
            normalizers.Replace(" ", "▁"),
        ]
    )
    first = [decoders.Strip(content=" ", left=1, right=0)] if pieces.adds_space_prefix else []
    core.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *first]
    )
    return core


def read_sentencepiece(path: Path) -> Pieces:
    """Read a ``tokenizer.model`` file.

    Raises:
        CheckpointError: the file is no SentencePiece model.
        Unsupported: the model splits into words or characters.
    """
    try:
        return _parse(path.read_bytes())
    except (IndexError, ValueError, struct.error) as error:
        raise CheckpointError(
            f"{path}: is no SentencePiece model ({error}). Fetch the file again."
        ) from error


def _merges(pieces: Pieces) -> list[tuple[str, str]]:
    """Pairs that make a piece, those of the best piece first.

    Merging the pair whose result has the best score, again and again, is byte-pair encoding with
    pairs ranked by that score.
    """
    rank = {
        text: score
        for text, score, kind in zip(pieces.texts, pieces.scores, pieces.kinds, strict=True)
        if kind in (PieceKind.NORMAL, PieceKind.USER_DEFINED, PieceKind.UNUSED)
    }
    ranked: list[tuple[float, int, int, tuple[str, str]]] = []
    for number, (text, score) in enumerate(rank.items()):
        for cut in range(1, len(text)):
            left, right = text[:cut], text[cut:]
            if left in rank and right in rank:
                ranked.append((-score, number, cut, (left, right)))
    ranked.sort()
    return [pair for *_, pair in ranked]


def _parse(data: bytes) -> Pieces:
    """Read the three messages of the file: pieces (1), training (2), normalization (3)."""
    texts, scores, kinds = list[str](), list[float](), list[PieceKind]()
    training: dict[int, int | bytes] = {}
    spacing: dict[int, int | bytes] = {}
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            piece = dict(_fields(value))
            texts.append(_bytes(piece.get(1, b"")).decode())
            scores.append(struct.unpack("<f", _bytes(piece.get(2, bytes(4))))[0])
            kinds.append(PieceKind(_int(piece.get(3, 1))))
        elif number == 2 and isinstance(value, bytes):
            training = dict(_fields(value))
        elif number == 3 and isinstance(value, bytes):
            spacing = dict(_fields(value))
    if not texts:
        raise ValueError("it has no pieces")
    model_type = _int(training.get(3, 1))
    if model_type not in (1, 2):
        raise Unsupported(
            f"SentencePiece model type {model_type}: must be 1 (unigram) or 2 (BPE). "
            "Give a folder with tokenizer.json."
        )
    return Pieces(
        texts=texts,
        scores=scores,
        kinds=kinds,
        adds_space_prefix=bool(_int(spacing.get(3, 1))),
        removes_extra_spaces=bool(_int(spacing.get(4, 1))),
        is_unigram=model_type == 1,
    )


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Fields of one protocol-buffer message: number and value."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        size = {1: 8, 5: 4}.get(wire)
        if size is None:
            if wire != 2:
                raise ValueError(f"wire type {wire} at byte {at}")
            size, at = _varint(data, at)
        if at + size > len(data):
            raise ValueError(f"cut off at byte {len(data)}")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError(f"number without end at byte {at}")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise TypeError("number where bytes belong")
    return value


def _int(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise TypeError("bytes where a number belongs")
    return value
