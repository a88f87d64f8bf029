"""What a checkpoint says about its model, before anything is decided."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from octavo.config.model import ModelConfig
from octavo.kit.errors import Unsupported

MAX_SIZE = 1 << 20
"""Largest width of a layer that is believed."""
MAX_VOCABULARY = 1 << 24
MAX_LAYERS = 10_000
MAX_CONTEXT = 1 << 31

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Facts of the files; ``model`` has the checkpoint's dtype and the model's longest context."""

    model: ModelConfig
    num_weights: int
    """Elements of all tensors, tied ones once."""
    longrope: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    """Divisors per frequency for short and for long contexts."""
    default_sampling: tuple[tuple[str, float], ...] = ()
    sampling_file: str = ""
    """Where ``default_sampling`` comes from."""
    eos_sources: str = ""
    """Where the ends of text come from."""


def count_weights(model: ModelConfig) -> int:
    """Elements of a decoder of these sizes, where no file says it (random weights)."""
    hidden, heads = model.hidden_size, model.num_heads * model.head_size
    kv_heads = model.num_kv_heads * model.head_size
    attention = hidden * (heads + 2 * kv_heads) + heads * hidden
    biases = (heads + 2 * kv_heads) * model.attention_bias + hidden * model.output_bias
    mlp = 3 * hidden * model.intermediate_size
    biases += (2 * model.intermediate_size + hidden) * model.mlp_bias
    layer = attention + mlp + biases + 2 * hidden
    heads_and_tables = model.vocab_size * hidden * (1 if model.tie_word_embeddings else 2)
    return model.num_layers * layer + heads_and_tables + hidden


def total_elements(shapes: Iterable[tuple[int, ...]]) -> int:
    return sum(math.prod(shape) for shape in shapes)


def require_model_type(model_type: str, where: str, known: Collection[str]) -> None:
    """Refuse an architecture that octavo does not have.

    Raises:
        Unsupported: the message lists what it has.
    """
    if model_type not in known:
        raise Unsupported(
            f"{where}: is of model type {model_type!r}; octavo has "
            f"{', '.join(sorted(known)) or 'none'}. Choose a model of one of these."
        )
