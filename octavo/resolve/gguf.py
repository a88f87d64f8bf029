"""GGUF metadata to model facts."""

from __future__ import annotations

import math
import struct
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from octavo.checkpoint.gguf import GGUFFile, read_gguf
from octavo.config.model import LayerConfig, ModelConfig, RopeConfig
from octavo.kit.errors import CheckpointError, Unsupported
from octavo.resolve.facts import (
    MAX_CONTEXT,
    MAX_LAYERS,
    MAX_SIZE,
    MAX_VOCABULARY,
    ModelFacts,
    require_model_type,
    total_elements,
)
from octavo.resolve.fields import Fields

_ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
"""Class in Hugging Face's words, for each ``general.architecture``; the key is the model_type."""

_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_SAMPLING = {
    "general.sampling.temp": ("temperature", 0.0, 100.0),
    "general.sampling.top_p": ("top_p", 1e-9, 1.0),
    "general.sampling.top_k": ("top_k", -1.0, float(MAX_VOCABULARY)),
    "general.sampling.min_p": ("min_p", 0.0, 1.0),
    "general.sampling.penalty_repeat": ("repetition_penalty", 1e-6, 100.0),
}
_EOS_FIELDS = ("eos_token_id", "eot_token_id", "eom_token_id")
_CONTROL = 3
_END_TOKENS = {"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "</s>"}
"""Control tokens that end an answer; GGUF names one of a model's ends only."""


def read_gguf_model(
    path: Path, *, name: str, model_types: Collection[str], weight_format: str
) -> ModelFacts:
    """Read what a .gguf file says about its model.

    Raises:
        CheckpointError: the file is damaged or says something that cannot be.
        Unsupported: the model is of a kind that octavo does not have.
    """
    file = read_gguf(path)
    general = Fields(path, file.metadata)
    model_type = general.text("general.architecture")
    require_model_type(model_type, str(path), {*_ARCHITECTURES} & {*model_types})
    prefix = f"{model_type}."
    own = {
        key.removeprefix(prefix): value
        for key, value in file.metadata.items()
        if key.startswith(prefix)
    }
    fields = Fields(path, own, prefix)
    if fields.has("expert_count") and fields.integer("expert_count", 0, 1 << 16):
        raise Unsupported(f"{path}: is a mixture of experts; octavo has dense models in GGUF.")
    model = replace(_read_model(file, fields, name=name), weight_format=weight_format)
    tokens = {name: bounds for name, bounds in _SAMPLING.items() if general.has(name)}
    return ModelFacts(
        model=model,
        num_weights=total_elements(tensor.shape for tensor in file.tensors.values()),
        default_sampling=tuple(
            (name, general.number(key, low, high)) for key, (name, low, high) in tokens.items()
        ),
        sampling_file=path.name,
        eos_sources="tokenizer.ggml",
    )


def _read_model(file: GGUFFile, fields: Fields, *, name: str) -> ModelConfig:
    hidden_size = fields.integer("embedding_length", 1, MAX_SIZE)
    num_heads = fields.integer("attention.head_count", 1, MAX_SIZE)
    num_kv_heads = fields.integer("attention.head_count_kv", 1, num_heads, default=num_heads)
    if num_heads % num_kv_heads:
        raise fields.error("attention.head_count_kv", f"a divisor of head_count ({num_heads})")
    head_size = fields.integer(
        "attention.key_length", 1, MAX_SIZE, default=max(1, hidden_size // num_heads)
    )
    if fields.integer("attention.value_length", 1, MAX_SIZE, default=head_size) != head_size:
        raise fields.error("attention.value_length", f"the key length ({head_size})")
    rope, longest = _read_rope(file, fields, head_size)
    vocab_size = _vocab_size(file)
    model_type = fields.prefix.removesuffix(".")
    window = None
    if fields.has("attention.sliding_window"):
        window = fields.integer("attention.sliding_window", 0, MAX_CONTEXT) or None
    layers = (LayerConfig(window=window),) * fields.integer("block_count", 1, MAX_LAYERS)
    return ModelConfig(
        name=name,
        path=str(file.path),
        weight_format="gguf",
        model_type=model_type,
        architecture=_ARCHITECTURES[model_type],
        dtype=_dtype(file),
        max_model_len=longest,
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        intermediate_size=fields.integer("feed_forward_length", 1, MAX_SIZE),
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_size=head_size,
        layers=layers,
        hidden_act="silu",
        rms_norm_eps=fields.number("attention.layer_norm_rms_epsilon", 0, 1),
        rope=rope,
        tie_word_embeddings="output.weight" not in file.tensors,
        attention_bias="blk.0.attn_q.bias" in file.tensors,
        output_bias="blk.0.attn_output.bias" in file.tensors,
        mlp_bias="blk.0.ffn_down.bias" in file.tensors,
        bos_token_id=_bos(file),
        eos_token_ids=_ends_of_text(file, vocab_size),
    )


def _read_rope(file: GGUFFile, fields: Fields, head_size: int) -> tuple[RopeConfig, int]:
    """Return the encoding and the longest context it is made for."""
    context = fields.integer("context_length", 1, MAX_CONTEXT)
    rotary_size = fields.integer("rope.dimension_count", 2, head_size, default=head_size)
    if rotary_size % 2:
        raise fields.error("rope.dimension_count", "an even number")
    plain = RopeConfig(
        theta=fields.number("rope.freq_base", 1, 1e15, default=10_000.0),
        rotary_size=rotary_size,
        inverse_factors=_rope_divisors(file, rotary_size // 2),
    )
    kind = fields.text("rope.scaling.type", default="none")
    if kind == "none":
        return plain, context
    if kind not in ("linear", "yarn"):
        raise Unsupported(
            f"{file.path}: {fields.prefix}rope.scaling.type is {kind!r}; octavo has none, "
            "linear, yarn. Choose another model."
        )
    trained = fields.integer(
        "rope.scaling.original_context_length", 1, MAX_CONTEXT, default=context
    )
    factor = fields.number("rope.scaling.factor", 1, 1e6)
    rope = replace(plain, kind=kind, factor=factor, original_max_position=trained)
    if fields.has("rope.scaling.attn_factor"):
        own = fields.number("rope.scaling.attn_factor", 1e-6, 1e6)
        rope = replace(rope, attention_factor=own * (1 + 0.1 * math.log(factor)))
    return rope, max(context, int(trained * factor))


def _rope_divisors(file: GGUFFile, count: int) -> tuple[float, ...]:
    """Per-frequency divisors that the file carries as a tensor (Llama 3.1 and later)."""
    tensor = file.tensors.get("rope_freqs.weight")
    if tensor is None:
        return ()
    if tensor.type.name != "F32" or tensor.shape != (count,):
        raise CheckpointError(
            f"{file.path}: rope_freqs.weight is {tensor.type.name} of shape "
            f"{list(tensor.shape)}, expected F32 of [{count}]. Convert the model again."
        )
    with file.path.open("rb") as data:
        data.seek(tensor.offset)
        values = struct.unpack(f"<{count}f", data.read(tensor.nbytes))
    if not all(math.isfinite(value) and value > 0 for value in values):
        raise CheckpointError(
            f"{file.path}: rope_freqs.weight holds divisors that are not above 0. "
            "Convert the model again."
        )
    return values


def _vocab_size(file: GGUFFile) -> int:
    table = file.tensors.get("token_embd.weight")
    if table is None or len(table.shape) != 2:
        raise CheckpointError(
            f"{file.path}: has no matrix token_embd.weight, so it is no language model. "
            "Choose a .gguf file of a whole model."
        )
    return table.shape[0]


def _dtype(file: GGUFFile) -> str:
    """Type of most of the bytes; quantized blocks are unpacked to bfloat16."""
    sizes: dict[str, int] = {}
    for tensor in file.tensors.values():
        sizes[tensor.type.name] = sizes.get(tensor.type.name, 0) + tensor.nbytes
    return _DTYPES.get(max(sizes, key=lambda name: sizes[name]), "bfloat16")


def _bos(file: GGUFFile) -> int | None:
    tokenizer = Fields(file.path, file.metadata)
    return next(iter(tokenizer.token_ids("tokenizer.ggml.bos_token_id")), None)


def _ends_of_text(file: GGUFFile, vocab_size: int) -> tuple[int, ...]:
    tokenizer = Fields(file.path, file.metadata)
    found: list[int] = []
    for name in _EOS_FIELDS:
        found += tokenizer.token_ids(f"tokenizer.ggml.{name}")
    if wrong := [token for token in found if token >= vocab_size]:
        raise CheckpointError(
            f"{file.path}: end of text {wrong[0]} is outside the vocabulary of {vocab_size}. "
            "Convert the model again."
        )
    texts = file.metadata.get("tokenizer.ggml.tokens")
    kinds = file.metadata.get("tokenizer.ggml.token_type")
    if isinstance(texts, list) and isinstance(kinds, list):
        found += [
            token
            for token, (text, kind) in enumerate(zip(texts, kinds, strict=False))
            if kind == _CONTROL and text in _END_TOKENS and token < vocab_size
        ]
    return tuple(dict.fromkeys(found))
