"""Small checkpoint files for tests, whole and broken."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

NUMBER_TYPES = {
    "B": 0, "b": 1, "H": 2, "h": 3, "I": 4, "i": 5, "f": 6, "?": 7, "Q": 10, "q": 11, "d": 12,
}  # fmt: skip

Tensor = tuple[str, Sequence[int], int, int, int]
"""Name, sizes with rows first, type number, offset, bytes of data."""


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def entry(key: str, value: object, kind: str = "I") -> bytes:
    return text(key) + typed(value, kind)


def typed(value: object, kind: str = "I") -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, list):
        return struct.pack("<I", 9) + array(value, kind)
    return struct.pack(f"<I{kind}", NUMBER_TYPES[kind], value)


def array(values: list[object], kind: str = "I") -> bytes:
    if values and isinstance(values[0], str):
        return struct.pack("<IQ", 8, len(values)) + b"".join(text(str(v)) for v in values)
    if values and isinstance(values[0], list):
        inner = b"".join(array(value, kind) for value in values if isinstance(value, list))
        return struct.pack("<IQ", 9, len(values)) + inner
    return struct.pack(f"<IQ{len(values)}{kind}", NUMBER_TYPES[kind], len(values), *values)


def gguf(
    metadata: Mapping[str, object] | None = None,
    tensors: Sequence[Tensor] = (),
    *,
    version: int = 3,
    raw_metadata: Sequence[bytes] = (),
    alignment: int = 32,
) -> bytes:
    """Return a whole file; data are zeros."""
    entries = [entry(key, value) for key, value in (metadata or {}).items()] + list(raw_metadata)
    head = struct.pack("<4sIQQ", b"GGUF", version, len(tensors), len(entries)) + b"".join(entries)
    for name, shape, kind, offset, _ in tensors:
        head += text(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", kind, offset)
    head += b"\0" * (-len(head) % alignment)
    end = max((offset + size for *_, offset, size in tensors), default=0)
    return head + b"\0" * end


def llama_gguf(**changes: object) -> bytes:
    """Return a small Llama; ``changes`` replace metadata (underscores for dots after llama)."""
    metadata: dict[str, object] = {
        "general.architecture": "llama",
        "llama.context_length": 512,
        "llama.embedding_length": 32,
        "llama.block_count": 2,
        "llama.feed_forward_length": 64,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": 8,
        "tokenizer.ggml.tokens": ["a", "<|im_end|>", "<|endoftext|>", "b"],
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.bos_token_id": 2,
    }
    metadata.update({key.replace("__", "."): value for key, value in changes.items()})
    metadata = {key: value for key, value in metadata.items() if value is not None}
    kinds = entry("tokenizer.ggml.token_type", [1, 3, 3, 1], "i")
    return gguf(metadata, [("token_embd.weight", (4, 32), 0, 0, 512)], raw_metadata=[kinds])


def safetensors(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def one_tensor(name: str = "w") -> bytes:
    return safetensors({name: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"\0" * 8)


LLAMA_CONFIG: dict[str, object] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 100,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "dtype": "bfloat16",
    "eos_token_id": 2,
    "bos_token_id": 1,
}


def folder(path: Path, config: Mapping[str, object] | None = None, **changes: object) -> Path:
    """Write a model folder of Hugging Face's format; None leaves a field out."""
    path.mkdir(parents=True, exist_ok=True)
    values = {**(LLAMA_CONFIG if config is None else config), **changes}
    values = {key: value for key, value in values.items() if value is not None}
    (path / "config.json").write_text(json.dumps(values))
    (path / "model.safetensors").write_bytes(one_tensor())
    return path
