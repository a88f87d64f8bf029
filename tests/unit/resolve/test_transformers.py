"""Folders as transformers saves them, read as transformers means them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from octavo.resolve.facts import count_weights
from octavo.resolve.hf import read_folder

transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.slow

SIZES = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 512,
}  # fmt: skip

CASES = {
    "llama": ("Llama", {}),
    "llama with biases": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "llama tied": ("Llama", {"tie_word_embeddings": True}),
    "llama 3": ("Llama", {"rope_parameters": {
        "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 64}}),
    "mistral": ("Mistral", {"sliding_window": 16, "head_dim": 8}),
    "qwen2": ("Qwen2", {}),
    "qwen2 sliding": ("Qwen2", {"use_sliding_window": True, "sliding_window": 8,
                                "max_window_layers": 1}),
    "qwen2 yarn": ("Qwen2", {"rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0,
        "original_max_position_embeddings": 512}}),
    "qwen3": ("Qwen3", {"head_dim": 16}),
    "qwen3 tied": ("Qwen3", {"head_dim": 16, "tie_word_embeddings": True}),
}  # fmt: skip


@pytest.fixture(params=CASES)
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Any]:
    """Return a folder and the model that was saved there."""
    family, changes = CASES[request.param]
    config = getattr(transformers, f"{family}Config")(**{**SIZES, **changes})
    model = getattr(transformers, f"{family}ForCausalLM")(config)
    model.save_pretrained(tmp_path)
    return tmp_path, model


def test_sizes_biases_and_weights_are_those_that_were_saved(saved: tuple[Path, Any]) -> None:
    folder, theirs = saved
    types = ("llama", "mistral", "qwen2", "qwen3")

    found = read_folder(folder, name="x", model_types=types, weight_format="safetensors")

    model, config, layer = found.model, theirs.config, theirs.model.layers[0]
    attention = layer.self_attn
    assert model.architecture == type(theirs).__name__
    assert (model.num_layers, model.head_size) == (len(theirs.model.layers), attention.head_dim)
    assert model.attention_bias == (attention.q_proj.bias is not None)
    assert model.output_bias == (attention.o_proj.bias is not None)
    assert model.mlp_bias == (layer.mlp.up_proj.bias is not None)
    assert model.tie_word_embeddings == config.tie_word_embeddings
    assert model.rope.theta == config.rope_parameters["rope_theta"]
    assert model.rope.kind == config.rope_parameters["rope_type"]
    head_norms = 2 * model.head_size * model.num_layers if model.model_type == "qwen3" else 0
    parameters = {id(parameter): parameter.numel() for parameter in theirs.parameters()}
    assert found.num_weights == sum(parameters.values()) == count_weights(model) + head_norms


def test_windows_are_those_that_attention_uses(saved: tuple[Path, Any]) -> None:
    folder, theirs = saved
    types = ("llama", "mistral", "qwen2", "qwen3")

    found = read_folder(folder, name="x", model_types=types, weight_format="safetensors")

    assert [layer.window for layer in found.model.layers] == [
        getattr(layer.self_attn, "sliding_window", None)
        or (
            getattr(theirs.config, "sliding_window", None)
            if found.model.model_type == "mistral"
            else None
        )
        for layer in theirs.model.layers
    ]
