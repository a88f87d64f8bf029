"""The columns of plain completions."""

from __future__ import annotations

from octavo.api.frontend.outputs import Logprob
from octavo.api.http.schema.logprobs import CompletionColumns


def position(spelled: bytes) -> dict[int, Logprob]:
    return {1: Logprob(-1.0, 1, spelled.decode("utf-8", "replace"), spelled)}


def test_offsets_count_a_character_of_several_tokens_once() -> None:
    emoji = "\N{GRINNING FACE}".encode()
    tokens = [b"a", emoji[:2], emoji[2:3], emoji[3:], b"bc", b"d"]

    columns = CompletionColumns(0).take([position(token) for token in tokens])

    assert columns.text_offset == [0, 1, 1, 1, 2, 4]


def test_offsets_go_on_from_one_piece_to_the_next() -> None:
    columns = CompletionColumns(0)
    emoji = "\N{GRINNING FACE}".encode()

    first = columns.take(["ab", position(emoji[:2])])
    second = columns.take([position(emoji[2:]), position(b"c")])

    assert first.text_offset + second.text_offset == [0, 2, 2, 3]


def test_bytes_that_are_no_character_do_not_run_past_the_text() -> None:
    tokens = [position(b"\xff"), position(b"\x9f"), position(b"z")]

    assert CompletionColumns(0).take(tokens).text_offset == [0, 0, 0]
