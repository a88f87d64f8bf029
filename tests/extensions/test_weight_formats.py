"""Every weight format: each weight once, of the promised shape, and readable into any dtype."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from octavo.config.model import ModelConfig
from octavo.device.loading.interface import FORMATS
from tests.reference.tiny import config_of, save_tiny
from tests.unit.device.loading.test_loader import write_gguf


@pytest.fixture(scope="module")
def config_for(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ModelConfig]:
    """A checkpoint of the same model in each format that the suite can write."""
    root = tmp_path_factory.mktemp("formats")
    folder = save_tiny("llama", root)

    def config(name: str) -> ModelConfig:
        model = replace(config_of(folder).model, weight_format=name)
        if name == "gguf":
            path: Path = root / "model.gguf"
            write_gguf(folder, path)
            model = replace(model, path=str(path))
        elif name not in ("safetensors", "dummy"):
            pytest.skip(f"the suite cannot write {name}")
        return model

    return config


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", FORMATS.names())
def test_every_weight_comes_once_and_fills_its_place(name, dtype, config_for) -> None:
    shapes = {"model.norm.weight": (96,), "model.layers.2.mlp.up_proj.weight": (160, 96)}
    weights = list(FORMATS.load(name).weights(config_for(name), shapes))

    names = [weight.name for weight in weights]
    assert len(names) == len(set(names))
    assert set(shapes) <= set(names)
    for weight in weights:
        assert weight.shape == shapes.get(weight.name, weight.shape)
        place = torch.full(weight.shape, torch.nan, dtype=dtype)
        weight.read_into(place)
        assert place.isfinite().all(), weight.name
        assert place.float().std() > 0, weight.name
        assert weight.source
