"""GGUF files: names of llama.cpp, weights in its block types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from octavo.checkpoint.gguf import GGUFTensor, read_gguf
from octavo.config.model import ModelConfig
from octavo.device.loading.interface import Shapes, Weight
from octavo.device.loading.mapped import MappedFile
from octavo.device.ops.dequantize import dequantize, known_types
from octavo.kit.errors import CheckpointError

_WHOLE = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_IN_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_IN_CONFIG = {"rope_freqs.weight"}
"""Tensors that are read as configuration."""

_BLOCK = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
_TOP = re.compile(r"(\w+)\.(weight|bias)")

_INTERLEAVED = {"llama"}
"""Architectures whose files hold the two halves of a rotated head interleaved."""


class GGUF:
    """Every tensor of one file, dequantised while it is copied."""

    def weights(self, config: ModelConfig, _shapes: Shapes) -> Iterator[Weight]:
        parsed = read_gguf(config.path)
        file = MappedFile(config.path)
        interleaved = parsed.metadata.get("general.architecture") in _INTERLEAVED
        for tensor in parsed.tensors.values():
            if tensor.name in _IN_CONFIG:
                continue
            name = hugging_face_name(tensor.name)
            read = partial(_read, file, tensor, _paired_heads(name, config) if interleaved else 0)
            yield Weight(name, tuple(tensor.shape), config.path, read)


def hugging_face_name(name: str) -> str:
    """Translate a tensor name; one that is not known stays as it is."""
    if match := _BLOCK.fullmatch(name):
        layer, part, leaf = match.groups()
        if part in _IN_BLOCK:
            return f"model.layers.{layer}.{_IN_BLOCK[part]}.{leaf}"
    if match := _TOP.fullmatch(name):
        part, leaf = match.groups()
        if part in _WHOLE:
            return f"{_WHOLE[part]}.{leaf}"
    return name


def _paired_heads(name: str, config: ModelConfig) -> int:
    """Heads whose rows are interleaved in this weight, or 0."""
    if ".q_proj." in name:
        return config.num_heads
    if ".k_proj." in name:
        return config.num_kv_heads
    return 0


def _read(file: MappedFile, tensor: GGUFTensor, paired_heads: int, place: Tensor) -> None:
    if tensor.type.name not in known_types():
        raise CheckpointError(
            f"{file.path}: weight {tensor.name!r} has type {tensor.type.name}; "
            f"known are {', '.join(known_types())}. Use a file of one of these types."
        )
    raw = file.bytes_at(tensor.offset, tensor.nbytes)
    if not paired_heads:
        dequantize(raw, tensor.type.name, place.view(-1))
        return
    # Rows of a head come as pairs (0, half), (1, half + 1), ...; put the halves apart again.
    values = torch.empty_like(place)
    dequantize(raw, tensor.type.name, values.view(-1))
    pairs = values.view(paired_heads, -1, 2, *values.shape[1:])
    place.view(paired_heads, 2, -1, *values.shape[1:]).copy_(pairs.transpose(1, 2))


FORMAT = GGUF()
