"""What a layer asks of an attention backend, and what a backend is given.

T tokens this step, R requests this step, B blocks per request, H heads, Hkv KV heads, D head size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """What one layer asks of a backend. Plain facts; known before any tensor."""

    num_heads: int
    num_kv_heads: int
    head_size: int
    dtype: torch.dtype
    scale: float
    causal: bool = True
    sliding_window: int | None = None


@dataclass(frozen=True, slots=True)
class AttentionMetadata:
    """Where this step's tokens sit. One per KV group, shared by its layers.

    Requests are in plan order; their tokens are contiguous. ``max_query_len`` and
    ``max_seq_len`` are host integers, so that a backend need not ask the device. The ``host_``
    lists hold the same lengths where the host knows them exactly (always on CPU).
    """

    query_start: Tensor  # [R + 1] int32: first token of each request
    seq_lens: Tensor  # [R] int32: context length, this step included
    block_table: Tensor  # [R, B] int32
    slot_mapping: Tensor  # [T] int64: block * block_size + offset
    block_size: int
    max_query_len: int
    max_seq_len: int
    host_query_lens: list[int] | None = None
    host_seq_lens: list[int] | None = None


@dataclass(frozen=True, slots=True)
class ForwardContext:
    """What a forward pass needs besides its inputs. An argument, never ambient."""

    attention: list[AttentionMetadata]
    """One per KV group."""
    group_of: list[int]
    """KV group of each attention layer."""
    kv_caches: list[Tensor]
    """Each attention layer's blocks, in its backend's layout."""


class AttentionBackend(Protocol):
    """How attention runs on some hardware.

    ``BACKEND`` of a module in ``backends`` is a class that is constructed once per distinct
    ``AttentionSpec``: ``BACKEND(spec)``.
    """

    name: ClassVar[str]
    exact: ClassVar[bool]
    """Whether a token's result depends on its own request alone, to the bit."""
    understands: ClassVar[frozenset[str]]
    """Spec fields that the backend reads; other fields must have their defaults."""

    def __init__(self, spec: AttentionSpec) -> None:
        """Serve the layers that have this spec."""

    @classmethod
    def refuses(cls, spec: AttentionSpec) -> str | None:
        """Why this backend cannot serve ``spec``, or None when it can."""

    @classmethod
    def bytes_per_block(cls, spec: AttentionSpec, block_size: int) -> int:
        """Bytes of one block of keys and values of one layer."""

    def view(self, blocks: Tensor, block_size: int) -> Tensor:
        """Lay this backend's shape over raw blocks [num_blocks, bytes_per_block] uint8."""

    def write(self, kv_cache: Tensor, key: Tensor, value: Tensor, meta: AttentionMetadata) -> None:
        """Store this step's keys and values in ``kv_cache``, which ``view`` made.

        Shapes:
            key, value: [T, Hkv, D]
        """

    def attend(self, query: Tensor, kv_cache: Tensor, meta: AttentionMetadata) -> Tensor:
        """Attend this step's queries to everything their request has cached.

        Reads only ``kv_cache``, so call ``write`` first. Nothing beyond a request's length is
        multiplied: old blocks may hold NaN.

        Shapes:
            query: [T, H, D]
            returns: [T, H, D]
        """
