from __future__ import annotations

from octavo.entrypoints.cli.stopwatch import Stopwatch
from octavo.entrypoints.cli.talk import Piece


def test_the_summary_has_rate_and_time_to_the_first_token() -> None:
    times = iter([0.0, 0.5, 1.0, 1.5, 1.6])
    watch = Stopwatch(clock=lambda: next(times))

    for piece in (Piece("a"), Piece("b"), Piece("c", finish_reason="length"), Piece("", 7, 3)):
        watch.saw(piece)

    assert watch.summary() == (
        "3 tokens, 2.0 tokens/s, first after 0.50 s, prompt 7 tokens, cut at the limit"
    )


def test_an_answer_that_was_stopped_says_so() -> None:
    watch = Stopwatch(clock=lambda: 0.0)

    watch.saw(Piece("a", 3, 1))

    assert watch.summary() == "1 tokens, first after 0.00 s, prompt 3 tokens, stopped"
