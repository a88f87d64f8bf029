"""A folder in Hugging Face format to model facts: layer kinds, KV geometry, ends of text."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from octavo.checkpoint.json_files import read_json
from octavo.checkpoint.safetensors import read_safetensors
from octavo.config.model import LayerConfig, ModelConfig
from octavo.kit.errors import CheckpointError
from octavo.kit.extension import ExtensionPoint
from octavo.resolve.facts import (
    DTYPE_BYTES,
    MAX_CONTEXT,
    MAX_LAYERS,
    MAX_SIZE,
    MAX_VOCABULARY,
    ModelFacts,
    count_weights,
    require_model_type,
    total_elements,
)
from octavo.resolve.fields import Fields
from octavo.resolve.models.base import Reader
from octavo.resolve.rope import Rope, read_rope

MODEL_CONFIGS = ExtensionPoint(
    group="octavo.model_configs", package="octavo.resolve.models", attribute="READER"
)

_SAMPLING = {
    "temperature": (0.0, 100.0),
    "top_p": (1e-9, 1.0),
    "top_k": (-1.0, float(MAX_VOCABULARY)),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (1e-6, 100.0),
}
"""Defaults that a generation config may set, and their bounds."""


def read_folder(
    folder: Path, *, name: str, model_types: Collection[str], weight_format: str
) -> ModelFacts:
    """Read config.json, generation_config.json, the tokenizer's end of text and the headers.

    ``weight_format`` is safetensors, or dummy for weights that no file holds.

    Raises:
        CheckpointError: a file is missing or says something that cannot be.
        Unsupported: the model is of a kind that octavo does not have.
    """
    path = folder / "config.json"
    config = Fields(path, read_json(path))
    require_model_type(config.text("model_type"), str(path), model_types)
    model, rope = read_model(config, folder=folder, name=name)
    model = replace(model, weight_format=weight_format)
    generation = _optional(folder / "generation_config.json")
    eos, sources = _ends_of_text(folder, config, generation, model.vocab_size)
    num_weights = count_weights(model)
    if weight_format != "dummy":
        num_weights = total_elements(t.shape for t in read_safetensors(folder).values())
    return ModelFacts(
        model=replace(model, eos_token_ids=eos),
        num_weights=num_weights,
        longrope=rope.longrope,
        default_sampling=_default_sampling(generation),
        sampling_file=generation.path.name,
        eos_sources=sources,
    )


def read_model(config: Fields, *, folder: Path, name: str) -> tuple[ModelConfig, Rope]:
    """Read the sizes, then what the model_type reads in its own way."""
    hidden_size = config.integer("hidden_size", 1, MAX_SIZE)
    num_heads = config.integer("num_attention_heads", 1, MAX_SIZE)
    num_kv_heads = config.integer("num_key_value_heads", 1, num_heads, default=num_heads)
    if num_heads % num_kv_heads:
        raise config.error("num_key_value_heads", f"a divisor of num_attention_heads ({num_heads})")
    if not config.has("head_dim") and hidden_size % num_heads:
        raise config.error("hidden_size", f"a multiple of num_attention_heads ({num_heads})")
    head_size = config.integer("head_dim", 1, MAX_SIZE, default=hidden_size // num_heads)
    rope = read_rope(config, head_size, config.integer("max_position_embeddings", 1, MAX_CONTEXT))
    has_bias = config.flag("attention_bias", default=False)
    model = ModelConfig(
        name=name,
        path=str(folder),
        weight_format="safetensors",
        model_type=config.text("model_type"),
        architecture=_architecture(config),
        dtype=_dtype(config),
        max_model_len=rope.longest,
        vocab_size=config.integer("vocab_size", 1, MAX_VOCABULARY),
        hidden_size=hidden_size,
        intermediate_size=config.integer("intermediate_size", 1, MAX_SIZE),
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_size=head_size,
        layers=(LayerConfig(),) * config.integer("num_hidden_layers", 1, MAX_LAYERS),
        hidden_act=config.text("hidden_act", default="silu"),
        rms_norm_eps=config.number("rms_norm_eps", 0, 1, default=1e-6),
        rope=rope.config,
        tie_word_embeddings=config.flag("tie_word_embeddings", default=False),
        attention_bias=has_bias,
        output_bias=has_bias,
        mlp_bias=config.flag("mlp_bias", default=False),
        quantization=_quantization(config),
        bos_token_id=next(iter(config.token_ids("bos_token_id")), None),
    )
    if model.model_type in MODEL_CONFIGS.names():
        reader: Reader = MODEL_CONFIGS.load(model.model_type)
        model = reader(config, model)
    return model, rope


def _architecture(config: Fields) -> str:
    names = config.texts("architectures")
    if not names:
        raise config.error("architectures", "a list with the name of the model's class")
    return names[0]


def _dtype(config: Fields) -> str:
    name = "dtype" if config.has("dtype") else "torch_dtype"
    dtype = config.text(name, default="float32").removeprefix("torch.")
    if dtype not in DTYPE_BYTES:
        raise config.error(name, " or ".join(DTYPE_BYTES))
    return dtype


def _quantization(config: Fields) -> str | None:
    part = config.part("quantization_config")
    return None if part is None else part.text("quant_method")


def _optional(path: Path) -> Fields:
    return Fields(path, read_json(path) if path.is_file() else {})


def _default_sampling(generation: Fields) -> tuple[tuple[str, float], ...]:
    return tuple(
        (name, generation.number(name, low, high))
        for name, (low, high) in _SAMPLING.items()
        if generation.has(name)
    )


def _ends_of_text(
    folder: Path, config: Fields, generation: Fields, vocab_size: int
) -> tuple[tuple[int, ...], str]:
    """Tokens that end an answer, from every file that names one, and those files."""
    tokenizer = _tokenizer_eos(folder)
    found = {
        generation.path.name: generation.token_ids("eos_token_id"),
        config.path.name: config.token_ids("eos_token_id"),
        "tokenizer_config.json": () if tokenizer is None else (tokenizer,),
    }
    token_ids = dict.fromkeys(token for tokens in found.values() for token in tokens)
    for token in token_ids:
        if token >= vocab_size:
            raise CheckpointError(
                f"{folder}: eos_token_id {token} is outside the vocabulary of {vocab_size}. "
                "Correct config.json or generation_config.json."
            )
    return tuple(token_ids), ", ".join(file for file, tokens in found.items() if tokens)


def _tokenizer_eos(folder: Path) -> int | None:
    """Id of the tokenizer's ``eos_token``, which its config names by text."""
    settings = _optional(folder / "tokenizer_config.json")
    token = settings.values.get("eos_token")
    content = token.get("content") if isinstance(token, dict) else token
    if not isinstance(content, str):
        return None
    decoder = settings.part("added_tokens_decoder")
    for number, entry in (decoder.values if decoder else {}).items():
        if isinstance(entry, dict) and entry.get("content") == content and number.isdigit():
            return int(number)
    added = _optional(folder / "tokenizer.json").values.get("added_tokens")
    for entry in added if isinstance(added, list) else ():
        if isinstance(entry, dict) and entry.get("content") == content:
            found: object = entry.get("id")
            return found if isinstance(found, int) and found >= 0 else None
    return None
