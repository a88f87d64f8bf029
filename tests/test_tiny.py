"""One prompt to one token through every layer, on a two-layer model of random weights.

Quick enough to run before each commit.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.decoders import ByteLevel

from octavo import LLM, SamplingParams

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
    "eos_token_id": 0,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint without weights: a configuration, and a tokenizer with a token per byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevel()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def test_one_prompt_gives_one_token(folder: Path) -> None:
    params = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True)

    with LLM(str(folder), load_format="dummy", kv_cache_memory_bytes=1 << 20) as llm:
        [whole] = llm.generate("Hi", params, use_tqdm=False)
        [again] = llm.generate("Hi", params, use_tqdm=False)

    assert len(whole.prompt_token_ids) == 2
    assert len(whole.outputs[0].token_ids) == 1
    assert whole.outputs[0].finish_reason == "length"
    assert again.outputs[0].token_ids == whole.outputs[0].token_ids
