"""A tiny random Llama in a folder, as a hub would hold it: weights, config, tokenizer, template.

Its weights are wide enough that what it says depends on everything it has read.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

_LAYERS, _HIDDEN, _FEED, _HEADS, _KV_HEADS, _HEAD = 2, 64, 128, 4, 2, 16
_SPECIAL = ("<s>", "</s>")
_TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def write_tiny_model(folder: Path, *, seed: int = 0) -> Path:
    """Fill ``folder`` and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = _write_tokenizer(folder)
    (folder / "config.json").write_text(json.dumps(_config(vocabulary)))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 1}))
    save_file(_weights(vocabulary, np.random.default_rng(seed)), folder / "model.safetensors")
    return folder


def _config(vocabulary: int) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocabulary,
        "hidden_size": _HIDDEN,
        "intermediate_size": _FEED,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _KV_HEADS,
        "head_dim": _HEAD,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_position_embeddings": 512,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "bos_token_id": 0,
        "eos_token_id": 1,
    }


def _write_tokenizer(folder: Path) -> int:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([*_SPECIAL, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([*_SPECIAL])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": _SPECIAL[0],
        "eos_token": _SPECIAL[1],
        "chat_template": _TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return len(vocabulary)


def _weights(vocabulary: int, rng: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    def matrix(rows: int, columns: int, gain: float = 1.0) -> NDArray[np.float32]:
        return (gain / columns**0.5 * rng.standard_normal((rows, columns))).astype(np.float32)

    def norm() -> NDArray[np.float32]:
        return rng.uniform(0.5, 1.5, _HIDDEN).astype(np.float32)

    weights = {
        "model.embed_tokens.weight": matrix(vocabulary, _HIDDEN, gain=8.0),
        "model.norm.weight": norm(),
        "lm_head.weight": matrix(vocabulary, _HIDDEN, gain=3.0),
    }
    for layer in range(_LAYERS):
        block = {
            "self_attn.q_proj": matrix(_HEADS * _HEAD, _HIDDEN, gain=1.5),
            "self_attn.k_proj": matrix(_KV_HEADS * _HEAD, _HIDDEN, gain=1.5),
            "self_attn.v_proj": matrix(_KV_HEADS * _HEAD, _HIDDEN, gain=2.0),
            "self_attn.o_proj": matrix(_HIDDEN, _HEADS * _HEAD, gain=2.0),
            "mlp.gate_proj": matrix(_FEED, _HIDDEN, gain=1.5),
            "mlp.up_proj": matrix(_FEED, _HIDDEN, gain=1.5),
            "mlp.down_proj": matrix(_HIDDEN, _FEED, gain=1.5),
            "input_layernorm": norm(),
            "post_attention_layernorm": norm(),
        }
        weights |= {f"model.layers.{layer}.{name}.weight": each for name, each in block.items()}
    return weights
