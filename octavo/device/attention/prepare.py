"""From a projection to cached keys, cached values and queries: norms, rotation, cache write.

T tokens, H heads, Hkv KV heads, D head size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from octavo.device.attention.interface import AttentionBackend, AttentionMetadata, AttentionSpec
from octavo.device.ops.rms_norm import rms_norm
from octavo.device.ops.rotate import rotate


@dataclass(frozen=True, slots=True)
class HeadNorms:
    """Norms of each query head and each key head, before rotation."""

    query: Tensor  # [D]
    key: Tensor  # [D]
    eps: float


@dataclass(frozen=True, slots=True)
class Rotation:
    """Angles of this step's tokens, gathered once and shared by all layers."""

    cos: Tensor  # [T, 1, D], 1 for dimensions that do not rotate
    sin: Tensor  # [T, 1, rotary_size / 2]


Prepare = Callable[[Tensor, HeadNorms | None, Rotation, Tensor, AttentionMetadata], Tensor]
"""Takes [T, (H + 2 * Hkv) * D], norms, angles, a layer's blocks; returns queries [T, H, D]."""


@runtime_checkable
class Prepares(Protocol):
    """A backend that does all of it at once."""

    def prepare(
        self,
        qkv: Tensor,
        norms: HeadNorms | None,
        rotation: Rotation,
        kv_cache: Tensor,
        meta: AttentionMetadata,
    ) -> Tensor:
        """Norm, rotate and write; return queries. May overwrite ``qkv``."""


def preparer_of(backend: AttentionBackend, spec: AttentionSpec) -> Prepare:
    """Return how ``backend`` prepares: its own way, or one op after the other."""
    if isinstance(backend, Prepares):
        return backend.prepare

    def prepare(
        qkv: Tensor,
        norms: HeadNorms | None,
        rotation: Rotation,
        kv_cache: Tensor,
        meta: AttentionMetadata,
    ) -> Tensor:
        query, key, value = rotated(qkv, spec, norms, rotation)
        backend.write(kv_cache, key, value, meta)
        return query

    return prepare


def rotated(
    qkv: Tensor, spec: AttentionSpec, norms: HeadNorms | None, rotation: Rotation
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values, one op after the other. Overwrites ``qkv``."""
    num_heads, num_rotated = spec.num_heads, spec.num_heads + spec.num_kv_heads
    heads = qkv.view(qkv.shape[0], -1, spec.head_size)  # [T, H + 2 * Hkv, D]
    if norms is not None:
        heads[:, :num_heads] = rms_norm(heads[:, :num_heads], norms.query, norms.eps)
        keys = heads[:, num_heads:num_rotated]
        heads[:, num_heads:num_rotated] = rms_norm(keys, norms.key, norms.eps)
    query_key = rotate(heads[:, :num_rotated], rotation.cos, rotation.sin)
    return query_key[:, :num_heads], query_key[:, num_heads:], heads[:, num_rotated:]
