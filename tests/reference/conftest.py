"""Checkpoints and models, made once per session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers

from octavo.config.octavo import OctavoConfig
from octavo.device.loading.loader import load_model
from octavo.device.models.base import CausalModel
from tests.reference import tiny


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    root = tmp_path_factory.mktemp("tiny")

    def folder(name: str) -> Path:
        return root / name if (root / name).exists() else tiny.save_tiny(name, root)

    return folder


@pytest.fixture(scope="session")
def tiny_pair(
    tiny_folder: Callable[[str], Path],
) -> Callable[[str], tuple[CausalModel, transformers.PreTrainedModel]]:
    made: dict[str, tuple[CausalModel, transformers.PreTrainedModel]] = {}

    def pair(name: str) -> tuple[CausalModel, transformers.PreTrainedModel]:
        if name not in made:
            folder = tiny_folder(name)
            made[name] = loaded(tiny.config_of(folder)), tiny.oracle(folder)
        return made[name]

    return pair


def loaded(config: OctavoConfig) -> CausalModel:
    return load_model(config, torch.device("cpu"), None)
