"""Facts, platforms and arguments that tests start from."""

from __future__ import annotations

from typing import Any

from octavo.config.args import EngineArgs
from octavo.config.model import LayerConfig, ModelConfig, RopeConfig
from octavo.platforms.base import PlatformFacts
from octavo.resolve.draft import Extensions
from octavo.resolve.facts import ModelFacts
from octavo.resolve.resolver import decide

MODEL = ModelConfig(
    name="tiny",
    path="/models/tiny",
    weight_format="safetensors",
    model_type="llama",
    architecture="LlamaForCausalLM",
    dtype="bfloat16",
    max_model_len=512,
    vocab_size=100,
    hidden_size=32,
    intermediate_size=64,
    num_heads=4,
    num_kv_heads=2,
    head_size=8,
    layers=(LayerConfig(),) * 2,
    hidden_act="silu",
    rms_norm_eps=1e-5,
    rope=RopeConfig(theta=1e4, rotary_size=8),
    tie_word_embeddings=True,
    attention_bias=False,
    output_bias=False,
    mlp_bias=False,
    eos_token_ids=(2,),
)
FACTS = ModelFacts(model=MODEL, num_weights=10_000, eos_sources="config.json")
CPU = PlatformFacts(
    name="cpu",
    device_name="a processor",
    num_devices=1,
    total_memory_bytes=16 << 30,
    available_memory_bytes=8 << 30,
    claimable_memory_bytes=8 << 30,
    threads=4,
    dtypes=("float32", "bfloat16", "float16"),
    prefers_checkpoint_dtype=False,
    attention_backends=("fast", "plain"),
    has_exact_path=False,
    default_max_num_seqs=64,
    default_max_num_batched_tokens=512,
    max_kv_cache_bytes=4 << 30,
)
EXTENSIONS = Extensions(
    attention_backends=("fast", "other", "plain"),
    executors=("multiproc", "uniproc"),
    quantizations=("unquantized",),
    weight_formats=("dummy", "gguf", "safetensors"),
)


def decided(
    facts: ModelFacts = FACTS,
    platform: PlatformFacts = CPU,
    extensions: Extensions = EXTENSIONS,
    **said: Any,
) -> Any:
    """Return the draft after all rules, for what was ``said``."""
    return decide(EngineArgs(**said), facts, platform, extensions)
