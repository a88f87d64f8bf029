"""The hub's client reads its address at import, so each test fetches in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.checkpoint import build
from tests.unit.checkpoint.hub_server import COMMIT, Hub, running_hub

pytestmark = pytest.mark.slow  # each test starts processes

_FETCH = """
import sys, warnings
from pathlib import Path
from octavo.checkpoint.source import locate
from octavo.kit.env import Environment
from octavo.kit.errors import OctavoError
model, revision, cache = sys.argv[1:]
env = Environment(cache_dir=Path(cache), api_key=None)
try:
    found = locate(model, revision=revision or None, download_dir=None, env=env)
except OctavoError as error:
    print("refused:", error)
else:
    print(found.kind, found.name, found.path)
"""

NEEDED = {
    name: f'"{name}"'.encode()
    for name in (
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "additional_chat_templates/rag.jinja",
    )
}
UNNEEDED = {
    "README.md": b"#",
    "pytorch_model.bin": b"pickle",
    "onnx/model.onnx": b"onnx",
    "original/consolidated.00.pth": b"pth",
    "tf_model.h5": b"h5",
    "vocab.json": b"{}",
    "merges.txt": b"",
    "nested/model.safetensors": b"other",
}


@pytest.fixture
def hub() -> Iterator[Hub]:
    index = {"weight_map": {"a": "part-1.safetensors", "b": "part[2].safetensors"}}
    repos = {
        "org/single": {**NEEDED, **UNNEEDED, "model.safetensors": build.one_tensor(),
                       "consolidated.safetensors": b"unneeded"},
        "org/sharded": {**NEEDED, "model.safetensors.index.json": json.dumps(index).encode(),
                        "part-1.safetensors": b"1", "part[2].safetensors": b"2",
                        "part2.safetensors": b"unneeded", "model.safetensors": b"unneeded"},
        "org/slow-tokenizer": {"config.json": b"{}", "vocab.json": b"{}", "merges.txt": b"",
                               "a.safetensors": b"1", "b.safetensors": b"2"},
        "org/ggufs": {"README.md": b"#", "q4.gguf": b"4" * 64, "q8.gguf": b"8" * 64},
        "org/gguf": {"README.md": b"#", "only.gguf": b"1" * 64},
        "org/pickles": {"config.json": b"{}", "pytorch_model.bin": b"pickle"},
        "org/nothing": {},
    }  # fmt: skip
    with running_hub(repos) as running:
        yield running


def fetch(hub: Hub, cache: Path, model: str, revision: str = "", **env: str) -> str:
    """Return what ``locate`` gives, in a process that knows only this hub."""
    done = subprocess.run(
        [sys.executable, "-c", _FETCH, model, revision, str(cache)],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("HF_")},
            "PYTHONPATH": os.pathsep.join(sys.path),
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(cache / "home"),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            **env,
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    return line


def files_of(line: str) -> set[str]:
    folder = Path(line.split()[-1])
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_only_the_files_that_serving_needs_are_asked_for(hub: Hub, tmp_path: Path) -> None:
    line = fetch(hub, tmp_path, "org/single")

    assert line.startswith("folder org/single ")
    assert files_of(line) == {*NEEDED, "model.safetensors"}
    assert sorted(hub.served) == sorted([*NEEDED, "model.safetensors"])


def test_an_index_says_which_weights_are_needed(hub: Hub, tmp_path: Path) -> None:
    line = fetch(hub, tmp_path, "org/sharded", "main")

    shards = {"model.safetensors.index.json", "part-1.safetensors", "part[2].safetensors"}
    assert files_of(line) == {*NEEDED, *shards}
    assert sorted(hub.served) == sorted([*NEEDED, *shards])


def test_other_tokenizer_files_are_taken_where_there_is_no_fast_one(
    hub: Hub, tmp_path: Path
) -> None:
    assert files_of(fetch(hub, tmp_path, "org/slow-tokenizer")) == {
        "config.json", "vocab.json", "merges.txt", "a.safetensors", "b.safetensors",
    }  # fmt: skip


def test_a_broken_download_is_resumed_where_it_broke(hub: Hub, tmp_path: Path) -> None:
    data, kept = bytes(range(256)) * (12 << 12), 10 << 20  # the client keeps whole pieces of 10 MiB
    hub.repos["org/single"]["model.safetensors"] = data
    hub.breaks_after["model.safetensors"] = 11 << 20

    line = fetch(hub, tmp_path, "org/single")

    assert (Path(line.split()[-1]) / "model.safetensors").read_bytes() == data
    assert [name for name in hub.served if name.startswith("model")] == [
        "model.safetensors",
        f"model.safetensors@{kept}",
    ]


def test_a_second_run_asks_for_no_content(hub: Hub, tmp_path: Path) -> None:
    first = fetch(hub, tmp_path, "org/single")
    hub.served.clear()

    assert fetch(hub, tmp_path, "org/single") == first
    assert hub.served == []


def test_what_was_fetched_serves_without_the_hub(hub: Hub, tmp_path: Path) -> None:
    folder, gguf = fetch(hub, tmp_path, "org/single"), fetch(hub, tmp_path, "org/ggufs:q4.gguf")
    sharded = fetch(hub, tmp_path, "org/sharded")
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9"}

    assert fetch(hub, tmp_path, "org/single", **nowhere) == folder
    assert fetch(hub, tmp_path, "org/sharded", **nowhere) == sharded
    assert fetch(hub, tmp_path, "org/ggufs:q4.gguf", HF_HUB_OFFLINE="1") == gguf
    hub.statuses["org/single"] = (503, "")
    assert fetch(hub, tmp_path, "org/single") == folder


def test_half_of_a_model_in_the_cache_does_not_serve(hub: Hub, tmp_path: Path) -> None:
    line = fetch(hub, tmp_path, "org/sharded")
    (Path(line.split()[-1]) / "part-1.safetensors").unlink()

    refused = fetch(hub, tmp_path, "org/sharded", HF_HUB_OFFLINE="1")

    assert "not in the local cache, and the hub is out of reach" in refused


@pytest.mark.parametrize("model", ["org/single", "org/ggufs:q4.gguf"])
def test_a_hub_out_of_reach_is_one_line(hub: Hub, tmp_path: Path, model: str) -> None:
    line = fetch(hub, tmp_path, model, HF_ENDPOINT="http://127.0.0.1:9")

    assert line.startswith(f"refused: {model.split(':')[0]}: is no folder here and not in the")
    assert line.endswith("Give a folder or a .gguf file, or connect and run again.")


def test_one_file_of_a_repository_can_be_named(hub: Hub, tmp_path: Path) -> None:
    line = fetch(hub, tmp_path, "org/ggufs:q8.gguf", COMMIT)

    assert line.startswith("gguf org/ggufs:q8.gguf ")
    assert Path(line.split()[-1]).read_bytes() == b"8" * 64
    assert hub.served == ["q8.gguf"]


def test_the_only_gguf_of_a_repository_needs_no_name(hub: Hub, tmp_path: Path) -> None:
    assert fetch(hub, tmp_path, "org/gguf").startswith("gguf org/gguf ")
    assert hub.served == ["only.gguf"]


@pytest.mark.parametrize(
    ("model", "revision", "reason"),
    [
        (
            "org/ggufs",
            "",
            "GGUF files only: q4.gguf, q8.gguf. Choose one, such as org/ggufs:q4.gguf",
        ),
        ("org/ggufs:q5.gguf", "", "no file 'q5.gguf'; its .gguf files are: q4.gguf, q8.gguf."),
        ("org/nothing:q5.gguf", "", "its .gguf files are: none"),
        ("org/pickles", "", "has no .safetensors weights"),
        ("org/nothing", "", "has no config.json (it has no files)"),
        ("org/absent", "", "the hub shows no such repository"),
        ("org/single", "nope", "has no revision 'nope'"),
    ],
)
def test_what_the_hub_cannot_give_is_one_line(
    hub: Hub, tmp_path: Path, model: str, revision: str, reason: str
) -> None:
    assert reason in fetch(hub, tmp_path, model, revision)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ((403, "GatedRepo"), "is gated. Accept its terms"),
        ((403, ""), "the hub refuses"),
        ((500, ""), "the hub is out of reach"),
    ],
)
def test_refusals_of_the_hub_are_one_line(
    hub: Hub, tmp_path: Path, status: tuple[int, str], reason: str
) -> None:
    hub.statuses["org/single"] = status

    assert reason in fetch(hub, tmp_path, "org/single")


def test_a_cache_that_cannot_be_written_is_one_line(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    line = fetch(hub, tmp_path / "file", "org/gguf", HF_HOME=str(tmp_path))

    assert line.startswith("refused: org/gguf: was not fetched (")
