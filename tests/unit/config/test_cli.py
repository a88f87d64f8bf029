from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, fields
from dataclasses import field as declared
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.config.args import EngineArgs, ServerArgs
from octavo.config.cli import field_docs, parse
from octavo.config.values import read_count
from octavo.kit.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherArgs:
    """Other things."""

    count: int = 3
    """How many; 100% of them."""
    share: float = 0.5
    """How much."""
    quiet: bool = False
    """Say nothing."""
    ids: tuple[int, ...] = ()
    """Some ids."""
    bare: str = "x"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextArgs:
    """A text and how many."""

    text: str | None = declared(default=None, metadata={"positional": True})
    count: int = 1


def engine(*argv: str) -> EngineArgs:
    return parse(argv, EngineArgs, prog="octavo serve")[0]


def refusal(*argv: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(argv, EngineArgs, ServerArgs, prog="octavo serve")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_nothing_said_leaves_every_field_as_it_is() -> None:
    assert parse([], EngineArgs, ServerArgs, OtherArgs, prog="p") == (
        EngineArgs(),
        ServerArgs(),
        OtherArgs(),
    )


def test_every_field_is_a_flag_of_its_type() -> None:
    values = {"int": "7", "float": "0.5", "str": "word", "tuple[str, ...]": "word", "bool": None}
    for cls in (EngineArgs, ServerArgs):
        for field in fields(cls):
            kind = str(field.type).removesuffix(" | None")
            flag = "--" + field.name.replace("_", "-")
            given = [flag] if values[kind] is None else [flag, values[kind]]

            [made] = parse(given, cls, prog="p")

            wanted = {"int": 7, "float": 0.5, "tuple[str, ...]": ("word",), "bool": True}
            assert getattr(made, field.name) == wanted.get(kind, "word")


def test_the_model_may_stand_alone_before_and_between_flags() -> None:
    assert engine("m").model == engine("--model", "m").model == "m"
    assert engine("--seed", "1", "m", "--threads", "2") == EngineArgs(model="m", seed=1, threads=2)
    assert engine("m", "--model", "m").model == "m"
    made = parse(["m", "--count", "2", "text"], EngineArgs, TextArgs, prog="p")
    assert made == (EngineArgs(model="m"), TextArgs(text="text", count=2))
    assert "was given twice, the other is 'a'" in refusal("a", "--model", "b")


def test_flags_may_have_underscores_and_equals_signs() -> None:
    assert engine("--max_model_len=4_0", "--chat-template=a_b=c") == EngineArgs(
        max_model_len=40, chat_template="a_b=c"
    )


def test_switches_turn_on_and_off() -> None:
    assert engine("--enable-prefix-caching").enable_prefix_caching is True
    assert engine("--no-enable-prefix-caching").enable_prefix_caching is False


def test_names_take_several_words_and_keys_one_each() -> None:
    _, server = parse(["--api-key", "k", "m", "--api-key", "l"], EngineArgs, ServerArgs, prog="p")

    assert server.api_key == ("k", "l")
    assert engine("--served-model-name", "a", "b", "--seed", "1").served_model_name == ("a", "b")


@pytest.mark.parametrize(
    ("text", "count"),
    [("7", 7), ("8k", 8000), ("8K", 8192), ("1.5K", 1536), ("2M", 2 << 20), ("2m", 2_000_000),
     ("4G", 4 << 30), ("4GiB", 4 << 30), ("4GB", 4 * 10**9), ("1T", 1 << 40), ("25.6k", 25_600)],
)  # fmt: skip
def test_counts_have_suffixes(text: str, count: int) -> None:
    assert engine("--max-model-len", text).max_model_len == count
    assert engine("--kv-cache-memory-bytes", text).kv_cache_memory_bytes == count


@pytest.mark.parametrize(
    "text", ["", "k", "x", "1.5", "8kk", "0.0001k", "infG", "nanK", "1e400G", "8KiBB", "1Kib"]
)
def test_counts_that_are_none_are_refused(text: str) -> None:
    assert "must be a whole number, such as 4096" in refusal(f"--max-model-len={text}")


@given(text=st.text(max_size=12))
def test_a_count_is_read_or_refused(text: str) -> None:
    try:
        count = read_count("max_model_len", text)
    except ConfigError:
        return
    assert isinstance(count, int)


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--max-modle-len", "3"], "--max-modle-len: is not known to octavo serve. Did you mean"),
        (["--max-modle-len=3"], "Did you mean --max-model-len?"),
        (["--zzz"], "--zzz: is not known to octavo serve. See octavo serve --help."),
        (["--max-model"], "is not known"),
        (["a", "b"], "b: is not known"),
        (["--port"], "--port: expected one argument"),
        (["--port=--"], "--port: expected one argument"),
        (["--port", "x"], "port='x': must be a whole number. Change the value of --port."),
        (["--seed", "1k"], "seed='1k': must be a whole number"),
        (["--gpu-memory-utilization", "much"], "must be a number"),
        (["--enable-prefix-caching=maybe"], "ignored explicit argument"),
    ],
)
def test_what_is_not_understood_is_one_line(argv: list[str], reason: str) -> None:
    assert reason in refusal(*argv)


def test_a_file_says_what_the_command_line_does_not(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "max-model-len: 4K\n--port: 9\nserved_model_name: [x, y]\napi-key: 123\nseed:\n"
        "enable-prefix-caching: false\ngpu_memory_utilization: 1\nmodel: other\nhost: a\n"
    )

    made, server = parse(
        ["--config", str(path), "--port", "10", "m"], EngineArgs, ServerArgs, prog="p"
    )

    assert made == EngineArgs(
        model="m",
        max_model_len=4096,
        served_model_name=("x", "y"),
        enable_prefix_caching=False,
        gpu_memory_utilization=1.0,
    )
    assert server == ServerArgs(host="a", port=10, api_key=("123",))


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("# nothing\n")

    assert engine("--config", str(path)) == EngineArgs()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("max-model-le: 1", "max-model-le in"),
        ("max-model-le: 1", "Did you mean max_model_len?"),
        ("port: yes", "port=True: must be a number or a text"),
        ("port: 1.5", "port='1.5': must be a whole number"),
        ("host: [a]", "host=['a']: must be a number or a text"),
        ("host: {a: b}", "must be a number or a text"),
        ("enable-prefix-caching: 1", "enable_prefix_caching=1: must be true or false"),
        ("- a", "must map option names to values"),
        ("1: 2", "must map option names to values"),
        ("port: 1\nhost: a\nport: 2", "says port twice, again in line 3. Leave one of them."),
        ("max-model-len: 8\nmax_model_len: 9", "says max_model_len twice, again in line 2"),
        ("a: [", "is no YAML"),
        ("a: !!python/object/apply:os.system [ls]", "is no YAML"),
        ("[" * 600, "is no YAML"),
        ("a: 0000-00-00", "is no YAML"),
        ("#" * (1 << 20) + "##", "must be under 1048576 bytes"),
    ],
)
def test_a_file_that_is_not_understood_is_one_line(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)

    assert reason in refusal("--config", str(path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "config='" in refusal("--config", str(tmp_path / "none.yaml"))


def test_help_comes_from_the_strings_under_the_fields(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(["--help"], EngineArgs, ServerArgs, OtherArgs, prog="octavo serve", about="Serve it.")

    said = " ".join(capsys.readouterr().out.split())
    assert caught.value.code == 0
    assert "Serve it." in said
    for cls in (EngineArgs, ServerArgs):
        for field in fields(cls):
            assert f"--{field.name.replace('_', '-')}" in said
            assert field_docs(cls)[field.name] in said
    assert "How many; 100% of them. Default: 3." in said


def test_every_option_has_a_string_under_it() -> None:
    for cls in (EngineArgs, ServerArgs):
        assert field_docs(cls).keys() == {field.name for field in fields(cls)}


def test_parsing_loads_no_library() -> None:
    code = (
        "import sys; from octavo.config.cli import parse;"
        "from octavo.config.args import EngineArgs;"
        "parse(['m'], EngineArgs, prog='p');"
        "print(sorted(n for n in sys.modules if n in ('yaml', 'torch', 'numpy', 'msgspec')))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
