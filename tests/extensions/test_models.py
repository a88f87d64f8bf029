"""Every model file: its classes load without a checkpoint, name all weights, and run."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from octavo.config.octavo import OctavoConfig
from octavo.device.loading.loader import load_model
from octavo.device.models.base import MODEL_FILES
from octavo.device.quantization.base import QUANTIZATIONS, quant_method
from tests.reference.driver import Driver, Text, compute
from tests.reference.tiny import config_of, save_tiny

CLASSES = [(name, cls) for name in MODEL_FILES.names() for cls in MODEL_FILES.load(name)]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> OctavoConfig:
    return config_of(save_tiny("llama", tmp_path_factory.mktemp("models")), load_format="dummy")


@pytest.mark.parametrize("is_tied", [False, True])
@pytest.mark.parametrize(("model_type", "architecture"), CLASSES)
def test_a_model_loads_and_computes_finite_logits(
    model_type: str, architecture: str, is_tied: bool, config: OctavoConfig
) -> None:
    model_config = replace(
        config.model,
        model_type=model_type,
        architecture=architecture,
        tie_word_embeddings=is_tied,
        attention_bias=True,
    )

    model = load_model(replace(config, model=model_config), torch.device("cpu"), None)

    text = Text([3, 1, 4, 1, 5, 9, 2, 6])
    compute(Driver(model, block_size=8), [text], chunk=3)
    logits = torch.stack(text.logits)
    assert logits.shape == (8, model_config.vocab_size)
    assert logits.dtype == torch.float32
    assert logits.isfinite().all()
    assert len(model.attention_layers()) == model_config.num_layers


@pytest.mark.parametrize("name", QUANTIZATIONS.names())
def test_a_quantization_multiplies_by_what_was_loaded(name: str) -> None:
    method, layer = quant_method(name), torch.nn.Module()
    method.create_weights(layer, in_features=64, out_features=48, dtype=torch.float32)
    weight, x, bias = torch.randn(48, 64), torch.randn(5, 64), torch.randn(48)
    layer.weight.data.copy_(weight)

    method.process_after_load(layer)

    torch.testing.assert_close(
        method.apply(layer, x, bias), x @ weight.T + bias, atol=1e-4, rtol=1e-4
    )
    torch.testing.assert_close(method.apply(layer, x, None), x @ weight.T, atol=1e-4, rtol=1e-4)
