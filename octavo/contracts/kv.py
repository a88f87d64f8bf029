"""The geometry of the KV cache: what layers need, and how blocks serve them."""

from __future__ import annotations

from octavo.contracts.codec import Message


class KVCacheSpec(Message, frozen=True):
    """What one layer keeps per block. Shapes and dtypes stay in the device."""

    layer: int
    kind: str
    """Names a policy in ``engine/kv/policies``."""
    block_size: int
    """[tokens]"""
    bytes_per_block: int
    window: int | None = None
    """Positions a query sees, itself included; None sees all. [tokens]"""


class KVGroup(Message, frozen=True):
    """Layers that share one block table per request."""

    kind: str
    layers: list[int]
    block_size: int
    window: int | None = None


class KVTensor(Message, frozen=True):
    """One allocation, ``num_blocks * bytes_per_block`` bytes, shared by one layer of each group."""

    layers: list[int]
    bytes_per_block: int


class KVCacheConfig(Message, frozen=True):
    """The plan that engine and device both follow. Block 0 is padding and never given out.

    Each tensor holds ``num_blocks`` blocks, block 0 included.
    """

    num_blocks: int
    groups: list[KVGroup]
    tensors: list[KVTensor]


class MemoryReport(Message, frozen=True):
    """What a worker measured after loading, in bytes."""

    total_bytes: int
    weights_bytes: int
    workspace_bytes: int
    """Rows, step buffers and activations of the largest step."""
    available_for_kv_bytes: int
