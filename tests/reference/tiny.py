"""Tiny random checkpoints, made with transformers: every parameter random, answers that vary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn

from octavo.config.args import EngineArgs
from octavo.config.octavo import OctavoConfig
from octavo.kit.env import read_environment
from octavo.resolve.load import load_config

VOCAB = 384
_SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 96,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_TEXT = "the quick brown fox jumps over the lazy dog; a paged cache keeps blocks of keys. " * 20


@dataclass(frozen=True)
class Tiny:
    """One kind of checkpoint."""

    make: Callable[[], transformers.PreTrainedConfig]
    shard_size: str = "1GB"


TINY = {
    "llama": Tiny(lambda: transformers.LlamaConfig(**_SIZES)),
    "llama_biased_sharded": Tiny(
        lambda: transformers.LlamaConfig(
            **_SIZES, attention_bias=True, mlp_bias=True, rope_parameters=dict(_LLAMA3)
        ),
        shard_size="200KB",
    ),
    "mistral": Tiny(lambda: transformers.MistralConfig(**_SIZES, sliding_window=None)),
    "mistral_window": Tiny(
        lambda: transformers.MistralConfig(**_SIZES, sliding_window=24, tie_word_embeddings=True)
    ),
    "qwen2": Tiny(lambda: transformers.Qwen2Config(**_SIZES, tie_word_embeddings=True)),
    "qwen3": Tiny(lambda: transformers.Qwen3Config(**_SIZES, head_dim=32), shard_size="300KB"),
}


def save_tiny(name: str, folder: Path) -> Path:
    """Write the checkpoint called ``name``, with a tokenizer, and return its folder."""
    target = folder / name
    config = TINY[name].make()
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    fill_randomly(model)
    model.generation_config = transformers.GenerationConfig(eos_token_id=1)
    model.save_pretrained(target, max_shard_size=TINY[name].shard_size)
    save_tokenizer(target)
    return target


def fill_randomly(model: nn.Module, seed: int = 0) -> None:
    """Draw every parameter: norms around 1, biases large enough to matter."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if "norm" in name:
            parameter.data = 1 + 0.3 * noise
        elif parameter.dim() == 1:
            parameter.data = 0.4 * noise
        elif "embed" in name or "lm_head" in name:
            parameter.data = 0.5 * noise
        else:
            parameter.data = 1.6 * noise * parameter.shape[1] ** -0.5
    model.tie_weights()


def save_tokenizer(folder: Path) -> None:
    """Write a byte-level BPE tokenizer that encodes any text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([_TEXT], trainer)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>"
    )
    fast.save_pretrained(folder)


def config_of(folder: Path, **options: object) -> OctavoConfig:
    """Resolve a checkpoint as the command line does; small limits unless ``options`` say more."""
    usual = {"kv_cache_memory_bytes": 32 << 20, "max_num_seqs": 40, "threads": 1}
    return load_config(EngineArgs(model=str(folder), **(usual | options)), read_environment())


def oracle(folder: Path) -> transformers.PreTrainedModel:
    """Load the same checkpoint with transformers."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )
    return model.eval()
