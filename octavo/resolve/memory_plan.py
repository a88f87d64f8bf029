"""Exact bytes of weights, KV and workspace, from sizes and file headers, before anything loads."""

from __future__ import annotations

from dataclasses import dataclass

from octavo.config.model import ModelConfig
from octavo.config.scheduler import SchedulerConfig
from octavo.resolve.facts import DTYPE_BYTES

_PADDING_BLOCKS = 1
"""Block 0 takes what padding writes and is never given out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """Every region of a worker's memory, in bytes."""

    limit_bytes: int
    """What utilization allows."""
    weights_bytes: int
    rope_bytes: int
    workspace_bytes: int
    bytes_per_block: int
    """All layers together."""
    num_blocks: int
    """The padding block included."""

    @property
    def kv_bytes(self) -> int:
        return self.num_blocks * self.bytes_per_block

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.rope_bytes + self.workspace_bytes + self.kv_bytes

    def regions(self) -> dict[str, int]:
        """Name and size of each region, in the order they are taken."""
        return {
            "weights": self.weights_bytes,
            "rotary table": self.rope_bytes,
            "rows and step buffers": self.workspace_bytes,
            "KV cache": self.kv_bytes,
        }


def weights_bytes(num_weights: int, model: ModelConfig) -> int:
    """Bytes of the weights once loaded: every element in the dtype of the model.

    A head tied to the embedding has its own copy, in the layout of its product.
    """
    copy = model.vocab_size * model.hidden_size if model.tie_word_embeddings else 0
    return (num_weights + copy) * DTYPE_BYTES[model.dtype]


def rope_bytes(model: ModelConfig) -> int:
    """Bytes of the table of angles: a cosine per dimension and a sine per pair and position."""
    return (model.max_model_len * (model.head_size + model.rope.rotary_size // 2)) * DTYPE_BYTES[
        model.dtype
    ]


def kv_bytes_per_block(model: ModelConfig, block_size: int) -> int:
    """Bytes of one block of keys and values, all layers together."""
    per_token = 2 * model.num_kv_heads * model.head_size * DTYPE_BYTES[model.dtype]
    return model.num_layers * per_token * block_size


def workspace_bytes(model: ModelConfig, limits: SchedulerConfig, block_size: int) -> int:
    """Bytes of rows, step buffers, and activations and logits of the largest step."""
    row = 4 * (limits.max_model_len + 1) + 8 * num_blocks_for(limits.max_model_len, block_size)
    attention = model.head_size * (2 * model.num_heads + 2 * model.num_kv_heads)
    token = 4 * (4 * model.hidden_size + 3 * model.intermediate_size + attention) + 64
    logits = 3 * 4 * model.vocab_size
    return (
        limits.max_rows * row + limits.max_num_batched_tokens * token + limits.max_num_seqs * logits
    )


def num_blocks_for(num_tokens: int, block_size: int) -> int:
    """Blocks that hold so many tokens of one request."""
    return -(-num_tokens // block_size)


def pool_for(num_tokens: int, num_requests: int, block_size: int) -> int:
    """Blocks of a pool that holds so many requests of so many tokens, padding included."""
    return num_requests * num_blocks_for(num_tokens, block_size) + _PADDING_BLOCKS


def tokens_in(num_blocks: int, block_size: int) -> int:
    """Tokens that one request can have in a pool of so many blocks."""
    return max(0, num_blocks - _PADDING_BLOCKS) * block_size
