from __future__ import annotations

from octavo.config.args import EngineArgs
from octavo.config.cli import parse
from octavo.entrypoints.cli.bench_startup import flags, json_key, read_phases

ANNOUNCED = """\
octavo 1 serves tiny at http://127.0.0.1:8000
context 512 tokens, KV cache 512 tokens

  command line, model headers    0.57 s
  engine process                 0.31 s
    load weights                14.17 s
  HTTP, meanwhile                2.53 s
  ready after                   28.70 s

Try it:
  curl never read 9.99 s
"""


def test_phases_are_read_without_those_beside_others() -> None:
    lines = iter(ANNOUNCED.splitlines(keepends=True))

    assert read_phases(lines) == {
        "command line, model headers": 0.57,
        "engine process": 0.31,
        "load weights": 14.17,
    }
    assert next(lines) == "\n"  # what comes after the last phase is left for others


def test_an_announcement_that_breaks_off_has_no_phases() -> None:
    assert read_phases(ANNOUNCED.splitlines()[:5]) == {}


def test_flags_say_what_the_arguments_say() -> None:
    args = EngineArgs(
        model="m",
        served_model_name=("a", "b"),
        enable_prefix_caching=False,
        async_scheduling=True,
        max_model_len=512,
        gpu_memory_utilization=0.5,
    )

    assert parse(flags(args), EngineArgs, prog="x") == (args,)


def test_keys_of_phases_are_words_without_spaces() -> None:
    assert json_key("command line, model headers") == "command_line_model_headers_s"
    assert json_key("spawn and hand-over") == "spawn_and_hand_over_s"
