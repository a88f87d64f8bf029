"""Facts about the model that decide configuration, memory and layers; read without torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeConfig:
    """Rotary position encoding."""

    theta: float
    rotary_size: int
    """Leading dimensions of a head that are rotated."""
    kind: str = "default"
    """default, linear, dynamic, yarn, longrope or llama3."""
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 0
    attention_factor: float | None = None
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    inverse_factors: tuple[float, ...] = ()
    """Per-frequency divisors that a GGUF file carries (``rope_freqs``); empty without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerConfig:
    """What one decoder layer keeps between steps."""

    kind: str = "full"
    """Names a KV policy."""
    window: int | None = None
    """Positions a query sees, itself included; None sees all. [tokens]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """One model, complete. Sizes are those of the whole model, not of a rank."""

    name: str
    """As the user gave it; the served name unless one is set."""
    path: str
    """Local folder, or .gguf file."""
    weight_format: str
    """Names a format in ``device/loading/formats``."""
    model_type: str
    architecture: str
    dtype: str
    """float32, bfloat16 or float16: weights and activations."""
    max_model_len: int
    """Longest prompt plus answer. [tokens]"""
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    layers: tuple[LayerConfig, ...]
    hidden_act: str
    rms_norm_eps: float
    rope: RopeConfig
    tie_word_embeddings: bool
    attention_bias: bool
    """Bias on the query, key and value projections."""
    output_bias: bool
    """Bias on the attention's output projection."""
    mlp_bias: bool
    quantization: str | None = None
    """Names a method in ``device/quantization/methods``; None is plain weights."""
    bos_token_id: int | None = None
    eos_token_ids: tuple[int, ...] = ()
    """Tokens that end an answer, from the generation config and the tokenizer."""

    @property
    def num_layers(self) -> int:
        return len(self.layers)
