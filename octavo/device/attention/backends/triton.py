"""Paged attention in Triton: the backend of CUDA devices.

Steps of one query each take the decode kernel, others the prefill kernel; in bfloat16 both give a
query the same bits. Other types take the prefill kernel alone. A block is
[2, Hkv, block_size, D].
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from octavo.device.attention.interface import AttentionMetadata, AttentionSpec
from octavo.device.attention.prepare import HeadNorms, Rotation, rotated
from octavo.device.ops.by_device import cuda_kernels
from octavo.device.ops.upload import upload

_HEAD_SIZES = (64, 128, 256)
_PROGRAMS = 264
"""Programs of a decode step that fill a device of 132 multiprocessors."""
_MOST_SPLITS = 32


class Triton:
    """Decode in pieces of the context, shared by several programs where requests are few."""

    name: ClassVar[str] = "triton"
    exact: ClassVar[bool] = True
    understands: ClassVar[frozenset[str]] = frozenset(
        {"num_heads", "num_kv_heads", "head_size", "dtype", "scale", "sliding_window"}
    )

    def __init__(self, spec: AttentionSpec) -> None:
        self._spec = spec
        self._kernels = cuda_kernels("attention")
        self._qkv = cuda_kernels("qkv")
        self._tiles: tuple[AttentionMetadata, Tensor, Tensor] | None = None

    @classmethod
    def refuses(cls, spec: AttentionSpec) -> str | None:
        if find_spec("triton") is None or not torch.cuda.is_available():
            return "it needs a CUDA device and the package triton"
        if spec.head_size not in _HEAD_SIZES:
            return f"head size {spec.head_size} is not one of {', '.join(map(str, _HEAD_SIZES))}"
        if spec.num_heads % spec.num_kv_heads:
            return f"{spec.num_heads} heads do not share {spec.num_kv_heads} KV heads evenly"
        if spec.num_heads // spec.num_kv_heads > 64:
            return "more than 64 heads share a KV head"
        return None

    @classmethod
    def bytes_per_block(cls, spec: AttentionSpec, block_size: int) -> int:
        return 2 * spec.num_kv_heads * block_size * spec.head_size * spec.dtype.itemsize

    def view(self, blocks: Tensor, block_size: int) -> Tensor:
        spec = self._spec
        return blocks.view(spec.dtype).view(
            blocks.shape[0], 2, spec.num_kv_heads, block_size, spec.head_size
        )

    def prepare(
        self,
        qkv: Tensor,
        norms: HeadNorms | None,
        rotation: Rotation,
        kv_cache: Tensor,
        meta: AttentionMetadata,
    ) -> Tensor:
        """Norm, rotate and write in one kernel, where all of a head rotates."""
        spec = self._spec
        if 2 * rotation.sin.shape[-1] != spec.head_size:
            query, key, value = rotated(qkv, spec, norms, rotation)
            self.write(kv_cache, key, value, meta)
            return query.contiguous()
        shape = (qkv.shape[0], spec.num_heads, spec.head_size)
        query = torch.empty(shape, dtype=qkv.dtype, device=qkv.device)
        written: Tensor = self._qkv.rotate_and_store(
            qkv,
            num_heads=spec.num_heads,
            num_kv_heads=spec.num_kv_heads,
            head_size=spec.head_size,
            norms=None if norms is None else (norms.query, norms.key),
            eps=0.0 if norms is None else norms.eps,
            cos=rotation.cos,
            sin=rotation.sin,
            slots=meta.slot_mapping,
            kv_cache=kv_cache,
            block_size=meta.block_size,
            query=query,
        )
        return written

    def write(self, kv_cache: Tensor, key: Tensor, value: Tensor, meta: AttentionMetadata) -> None:
        block, offset = meta.slot_mapping // meta.block_size, meta.slot_mapping % meta.block_size
        kv_cache[block, 0, :, offset] = key
        kv_cache[block, 1, :, offset] = value

    def attend(self, query: Tensor, kv_cache: Tensor, meta: AttentionMetadata) -> Tensor:
        spec, out = self._spec, torch.empty_like(query)
        window = spec.sliding_window or 0
        if meta.max_query_len > 1 or spec.dtype != torch.bfloat16:
            tile_request, tile_first = self._tiles_of(meta)
            attended: Tensor = self._kernels.prefill(
                query,
                kv_cache,
                block_table=meta.block_table,
                seq_lens=meta.seq_lens,
                query_start=meta.query_start,
                tile_request=tile_request,
                tile_first=tile_first,
                scale=spec.scale,
                window=window,
                out=out,
            )
            return attended
        splits = self._splits(query.shape[0])
        decoded: Tensor = self._kernels.decode(
            query,
            kv_cache,
            block_table=meta.block_table,
            seq_lens=meta.seq_lens,
            scale=spec.scale,
            window=window,
            num_splits=splits,
            partial=self._partial(query, meta, splits),
            out=out,
        )
        return decoded

    def _splits(self, num_requests: int) -> int:
        """Programs per request and KV head; they do not change the bits."""
        fill = _PROGRAMS // (num_requests * self._spec.num_kv_heads)
        return max(1, min(_MOST_SPLITS, fill))

    def _partial(
        self, query: Tensor, meta: AttentionMetadata, splits: int
    ) -> tuple[Tensor, Tensor]:
        """Room for every piece, where programs share a context."""
        pieces = -(-meta.max_seq_len // self._kernels.PIECE) if splits > 1 else 1
        shape = (query.shape[0], self._spec.num_heads, pieces) if splits > 1 else (1, 1, 1)
        values = torch.empty((*shape, self._spec.head_size), device=query.device)
        return values, torch.empty((*shape, 2), device=query.device)

    def _tiles_of(self, meta: AttentionMetadata) -> tuple[Tensor, Tensor]:
        """Return the request and the first query of every tile; layers of a group share them."""
        if meta.max_query_len == 1:  # may be captured: nothing from the host
            count, device = meta.seq_lens.shape[0], meta.seq_lens.device
            request = torch.arange(count, dtype=torch.int32, device=device)
            return request, torch.zeros_like(request)
        if self._tiles is None or self._tiles[0] is not meta:
            both = upload(np.stack(self._plan_tiles(meta)), meta.seq_lens.device)
            self._tiles = (meta, both[0], both[1])
        return self._tiles[1:]

    def _plan_tiles(self, meta: AttentionMetadata) -> tuple[np.ndarray, np.ndarray]:
        """Cut every request's queries; tiles that read most come first."""
        spec = self._spec
        size = self._kernels.tokens_per_tile(spec.num_heads, spec.num_kv_heads)
        counts = meta.host_query_lens or meta.query_start.diff().tolist()
        lengths = meta.host_seq_lens or meta.seq_lens.tolist()
        tiles = -(-np.asarray(counts) // size)
        request = np.repeat(np.arange(len(counts)), tiles)
        first = (np.arange(len(request)) - np.repeat(np.cumsum(tiles) - tiles, tiles)) * size
        reads = (np.asarray(lengths) - np.asarray(counts))[request] + first
        order = np.argsort(-reads, kind="stable")
        return request[order].astype(np.int32), first[order].astype(np.int32)


BACKEND = Triton
