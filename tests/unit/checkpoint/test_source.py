from __future__ import annotations

from pathlib import Path

import pytest

from octavo.checkpoint.source import DEMO_COMMAND, DEMO_PACKAGE, ModelSource, locate
from octavo.kit.env import Environment
from octavo.kit.errors import CheckpointError, ConfigError
from tests.unit.checkpoint import build

ENV = Environment(cache_dir=None, api_key=None)


def find(model: str | None, revision: str | None = None) -> ModelSource:
    return locate(model, revision=revision, download_dir=None, env=ENV)


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a demo package that would fail if it were imported."""
    package = tmp_path / "site" / DEMO_PACKAGE
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(package.parent))
    return package


def test_a_folder_with_a_config_is_a_model(tmp_path: Path) -> None:
    build.folder(tmp_path)

    assert find(str(tmp_path)) == ModelSource(str(tmp_path), tmp_path, "folder")


def test_a_gguf_file_is_a_model_and_so_is_a_folder_with_one(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"")

    assert find(str(path)) == ModelSource(str(path), path, "gguf")
    assert find(str(tmp_path)) == ModelSource(str(tmp_path), path, "gguf")


def test_a_config_beside_a_gguf_file_alone_does_not_make_a_folder(tmp_path: Path) -> None:
    build.folder(tmp_path)
    (tmp_path / "m.gguf").write_bytes(b"")
    assert find(str(tmp_path)).kind == "folder"

    (tmp_path / "model.safetensors").unlink()
    assert find(str(tmp_path)).kind == "gguf"


@pytest.mark.parametrize(
    ("files", "found"), [([], "nothing"), (["a.gguf", "b.gguf"], "a.gguf, b.gguf"), (["x"], "x")]
)
def test_a_folder_without_a_model_says_what_it_has(
    tmp_path: Path, files: list[str], found: str
) -> None:
    for name in files:
        (tmp_path / name).write_text("")

    with pytest.raises(CheckpointError, match=rf"\(found: {found}\)"):
        find(str(tmp_path))


def test_another_file_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_text("")

    with pytest.raises(CheckpointError, match=r"is no folder and no \.gguf file"):
        find(str(tmp_path / "model.bin"))


@pytest.mark.parametrize(
    "model", ["", "nope", "./nope/x", "a/b/c", "a/-b", "a/b:model.bin", "a/b c"]
)
def test_a_name_of_nothing_is_refused_without_a_network(model: str) -> None:
    with pytest.raises(ConfigError, match="file here, and no hub id"):
        find(model)


def test_the_demo_model_is_found_without_importing_its_package(demo: Path) -> None:
    (demo / "Small.gguf").write_bytes(b"")

    assert find(None) == ModelSource("SmolLM2-135M-Instruct", demo / "Small.gguf", "gguf")


def test_without_the_demo_model_the_command_that_brings_it_is_named(demo: Path) -> None:
    with pytest.raises(CheckpointError, match="the demo model is not installed") as caught:
        find(None)

    assert str(caught.value).endswith(f"or run: {DEMO_COMMAND}")


def test_a_revision_is_for_hub_ids(demo: Path, tmp_path: Path) -> None:
    for model in (None, str(tmp_path)):
        with pytest.raises(ConfigError, match="revision='v1': is for hub ids"):
            find(model, "v1")
