"""The incremental detokenizer against decoding, and searching, the whole."""

from __future__ import annotations

import random
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.api.frontend.detokenizer import Detokenizer, StopText
from octavo.api.text.tokenizer import NO_BYTES
from octavo.testing.fake_tokenizer import EOS_ID, FakeTokenizer

TOKENIZER = FakeTokenizer()
ids = st.lists(st.integers(0, 261), max_size=60)
cuts = st.lists(st.integers(1, 7), min_size=1, max_size=30)
words = st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=4)


def chunks(token_ids: list[int], sizes: list[int]) -> list[list[int]]:
    pieces, at, turn = [], 0, 0
    while at < len(token_ids):
        size = sizes[turn % len(sizes)]
        pieces.append(token_ids[at : at + size])
        at, turn = at + size, turn + 1
    return pieces


def run(detokenizer: Detokenizer, pieces: list[list[int]]) -> tuple[list[str], int]:
    """Deltas, the last one after the end, and the number of tokens that were read."""
    deltas, num_read = [], 0
    for piece in pieces:
        read = detokenizer.push(piece)
        num_read += read
        deltas.append(detokenizer.take())
        if detokenizer.stop_string is not None:
            break
    detokenizer.finish()
    return [*deltas, detokenizer.take()], num_read


@given(token_ids=ids, sizes=cuts)
@settings(max_examples=300, deadline=None)
def test_pieces_add_up_to_the_decoded_whole(token_ids: list[int], sizes: list[int]) -> None:
    deltas, _ = run(Detokenizer(TOKENIZER.token_bytes), chunks(token_ids, sizes))

    assert "".join(deltas) == TOKENIZER.decode(token_ids)


@given(token_ids=ids, sizes=cuts)
@settings(max_examples=100, deadline=None)
def test_skipped_special_tokens_do_not_part_a_character(
    token_ids: list[int], sizes: list[int]
) -> None:
    deltas, _ = run(Detokenizer(TOKENIZER.shown_bytes), chunks(token_ids, sizes))

    assert "".join(deltas) == TOKENIZER.decode(token_ids, skip_special_tokens=True)


@given(text=st.text(max_size=30), sizes=cuts)
@settings(max_examples=300, deadline=None)
def test_half_a_character_is_never_emitted(text: str, sizes: list[int]) -> None:
    deltas, _ = run(Detokenizer(TOKENIZER.token_bytes), chunks(list(text.encode()), sizes))

    assert "".join(deltas) == text
    assert all("\ufffd" not in delta or "\ufffd" in text for delta in deltas)


def first_stop(text: str, strings: list[str], min_tokens: int) -> tuple[int, str] | None:
    """The slow way: after each character, does the text end in a stop string; longest first."""
    for end in range(max(1, min_tokens), len(text) + 1):
        for string in sorted(strings, key=len, reverse=True):
            if text[:end].endswith(string):
                return end - len(string), string
    return None


@given(
    text=st.text("abc", max_size=40),
    strings=words,
    min_tokens=st.integers(0, 12),
    is_shown=st.booleans(),
    sizes=cuts,
)
@settings(max_examples=1000, deadline=None)
def test_a_stop_string_ends_the_answer_where_the_slow_search_says(
    text: str, strings: list[str], min_tokens: int, *, is_shown: bool, sizes: list[int]
) -> None:
    detokenizer = Detokenizer(TOKENIZER.token_bytes, StopText(tuple(strings), min_tokens, is_shown))
    deltas, num_read = run(detokenizer, chunks(list(text.encode()), sizes))
    found = first_stop(text, strings, min_tokens)

    if found is None:
        assert detokenizer.stop_string is None
        assert "".join(deltas) == text
        assert num_read == len(text)
    else:
        start, string = found
        assert detokenizer.stop_string == string
        assert "".join(deltas) == text[: start + len(string) if is_shown else start]
        assert num_read == start + len(string)
        assert detokenizer.num_tokens == num_read


@given(text=st.text("abc", max_size=40), strings=words, sizes=cuts)
@settings(max_examples=300, deadline=None)
def test_nothing_that_a_stop_string_would_take_back_is_emitted(
    text: str, strings: list[str], sizes: list[int]
) -> None:
    detokenizer = Detokenizer(TOKENIZER.token_bytes, StopText(tuple(strings)))
    shown, seen = "", 0
    for piece in chunks(list(text.encode()), sizes):
        seen += detokenizer.push(piece)
        shown += detokenizer.take()
        if detokenizer.stop_string is not None:
            break
        held = text[len(shown) : seen]
        assert shown == text[: len(shown)]
        # what is held, and no more, may still become a stop string
        assert held == "" or any(string.startswith(held) for string in strings)
        assert not any(
            string.startswith(text[at:seen]) for at in range(len(shown)) for string in strings
        )


def test_a_greedy_answer_with_min_tokens_is_not_ended_by_an_early_stop_string() -> None:
    answer = b"The capital of Japan is Tokyo, and so on and on"
    stop = answer[4:8].decode()
    detokenizer = Detokenizer(TOKENIZER.token_bytes, StopText((stop,), min_tokens=20))

    deltas, num_read = run(detokenizer, [[token_id] for token_id in answer[:40]])

    assert num_read == 40
    assert "".join(deltas) == answer[:40].decode()


def test_a_stop_string_that_completes_at_the_last_of_min_tokens_counts() -> None:
    detokenizer = Detokenizer(TOKENIZER.token_bytes, StopText(("de",), min_tokens=5))

    deltas, num_read = run(detokenizer, [[token_id] for token_id in b"abcdefg"])

    assert (num_read, "".join(deltas)) == (5, "abc")


def test_special_tokens_can_be_part_of_a_stop_string_when_they_are_shown() -> None:
    detokenizer = Detokenizer(TOKENIZER.token_bytes, StopText(("<eos>",)))

    deltas, _ = run(detokenizer, [[65], [EOS_ID], [66]])

    assert "".join(deltas) == "A"


def test_a_request_without_text_has_none() -> None:
    deltas, num_read = run(Detokenizer(NO_BYTES), [[65, 66], [10**9]])

    assert ("".join(deltas), num_read) == ("", 3)


def seconds(num_tokens: int, stop: StopText) -> float:
    rng = random.Random(0)
    token_ids = [rng.randrange(97, 100) for _ in range(num_tokens)]
    best = 1e9
    for _ in range(3):
        detokenizer = Detokenizer(TOKENIZER.token_bytes, stop)
        start = time.perf_counter()
        for token_id in token_ids:
            detokenizer.push([token_id])
            detokenizer.take()
        best = min(best, time.perf_counter() - start)
    return best


def test_time_per_token_does_not_grow_with_the_answer() -> None:
    stop = StopText(("abcabcabcd", "ccccccccc"))
    short, long = seconds(2_000, stop), seconds(20_000, stop)

    assert long < 10 * short * 3  # ten times the tokens; three for a busy machine
