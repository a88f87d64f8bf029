"""Device memory of one worker: what is free, and the regions that are handed out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.config.octavo import OctavoConfig
from octavo.contracts.kv import KVCacheConfig, MemoryReport
from octavo.device.attention.interface import AttentionBackend, AttentionSpec
from octavo.kit.env import read_environment
from octavo.platforms.base import probe_platform
from octavo.resolve.memory_plan import workspace_bytes


@dataclass(slots=True)
class Memory:
    """Hands out every tensor that lives longer than a step, and counts its bytes.

    Invariant: after ``close`` nothing more is handed out.
    """

    device: torch.device
    regions: dict[str, int] = field(default_factory=dict)
    """Name and size of each region. [bytes]"""
    _is_closed: bool = False

    def tensor(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return a zeroed tensor on the device."""
        assert not self._is_closed, f"{name}: memory is handed out before ready only"
        tensor = torch.zeros(shape, dtype=dtype, device=self.device)
        self.regions[name] = self.regions.get(name, 0) + tensor.numel() * tensor.element_size()
        return tensor

    def staged(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Staged:
        """Return a buffer that the host fills and the device reads."""
        return Staged(self.tensor(name, shape, dtype))

    def staged_together(self, name: str, columns: dict[str, torch.dtype], size: int) -> Columns:
        """Return columns of ``size`` elements that are sent in one copy."""
        widths = [dtype.itemsize * -(-size // 2) * 2 for dtype in columns.values()]
        return Columns(self.staged(name, (sum(widths),), torch.uint8), columns, widths)

    def close(self) -> None:
        """Hand out nothing more."""
        self._is_closed = True

    @property
    def allocated_bytes(self) -> int:
        return sum(self.regions.values())


class Staged:
    """A column that the host writes and the device reads; on CPU they are the same memory.

    Elsewhere two pinned host buffers take turns, since the device may still read the last one.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self._is_shared = tensor.device.type == "cpu"
        self._hosts = [tensor] if self._is_shared else [_pinned_like(tensor) for _ in range(2)]
        self._turn = 0
        self.host: NDArray[Any] = self._hosts[0].numpy()  # Any: dtype is a value here

    def turn(self) -> NDArray[Any]:  # Any: dtype is a value here
        """Return the host buffer to fill for this step."""
        self._turn = (self._turn + 1) % len(self._hosts)
        self.host = self._hosts[self._turn].numpy()
        return self.host

    def send(self, count: int) -> Tensor:
        """Return the first ``count`` elements as the device sees them."""
        if not self._is_shared:
            self.tensor[:count].copy_(self._hosts[self._turn][:count], non_blocking=True)
        return self.tensor[:count]


class Columns:
    """Several columns of one buffer."""

    def __init__(self, staged: Staged, columns: dict[str, torch.dtype], widths: list[int]) -> None:
        self._staged = staged
        self._places: dict[str, tuple[slice, torch.dtype]] = {}
        begin = 0
        for (name, dtype), width in zip(columns.items(), widths, strict=True):
            self._places[name] = (slice(begin, begin + width), dtype)
            begin += width
        self.tensors = {
            name: staged.tensor[place].view(dtype) for name, (place, dtype) in self._places.items()
        }
        """As the device sees them."""

    def turn(self) -> dict[str, NDArray[Any]]:  # Any: dtype is a value here
        """Return the host columns to fill for this step."""
        host = torch.from_numpy(self._staged.turn())
        return {
            name: host[place].view(dtype).numpy() for name, (place, dtype) in self._places.items()
        }

    def send(self) -> None:
        """Let the device see all of them."""
        self._staged.send(self._staged.tensor.shape[0])


@dataclass(frozen=True, slots=True)
class KVCaches:
    """Keys and values of every attention layer, and which block table each layer follows."""

    layers: list[Tensor]
    """In the layout of each layer's backend."""
    group_of: list[int]

    @staticmethod
    def allocate(
        plan: KVCacheConfig,
        layers: list[tuple[AttentionSpec, AttentionBackend]],
        memory: Memory,
    ) -> KVCaches:
        """Allocate what ``plan`` says and lay each backend's view over it."""
        group_of, block_sizes = _groups(plan, len(layers))
        views: list[Tensor | None] = [None] * len(layers)
        for tensor in plan.tensors:
            blocks = memory.tensor("kv", (plan.num_blocks, tensor.bytes_per_block), torch.uint8)
            for layer in tensor.layers:
                spec, backend = layers[layer]
                need = backend.bytes_per_block(spec, block_sizes[layer])
                if need != tensor.bytes_per_block:
                    raise ValueError(
                        f"layer {layer} needs {need} bytes a block, its tensor has "
                        f"{tensor.bytes_per_block}"
                    )
                views[layer] = backend.view(blocks, block_sizes[layer])
        missing = [layer for layer, view in enumerate(views) if view is None]
        if missing:
            raise ValueError(f"the KV plan has no tensor for layers {missing}")
        return KVCaches([view for view in views if view is not None], group_of)


def measure(config: OctavoConfig, weights: Iterable[Tensor]) -> MemoryReport:
    """Say what is left for KV after weights (loaded already), rows and the largest step."""
    total, available = _total_and_available(config.parallel.device)
    workspace = workspace_bytes(config.model, config.scheduler, config.cache.block_size)
    return MemoryReport(
        total_bytes=total,
        weights_bytes=sum(_unique_bytes(weights)),
        workspace_bytes=workspace,
        available_for_kv_bytes=max(0, available - workspace),
    )


def _total_and_available(device: str) -> tuple[int, int]:
    """Return the memory of the device, and what is free of it, in bytes."""
    if device == "cuda":
        torch.cuda.empty_cache()  # what loading took and gave back
        free, total = torch.cuda.mem_get_info()
        return total, free
    facts = probe_platform(device, read_environment())
    return facts.total_memory_bytes, facts.available_memory_bytes


def _unique_bytes(tensors: Iterable[Tensor]) -> list[int]:
    """Sizes of distinct storages: tied weights count once, packed ones stand for themselves."""
    packed, plain = [], {}
    for tensor in tensors:
        if tensor.is_mkldnn:
            packed.append(tensor.nbytes)
        else:
            storage = tensor.untyped_storage()
            plain[storage.data_ptr()] = storage.nbytes()
    return [*packed, *plain.values()]


def _groups(plan: KVCacheConfig, num_layers: int) -> tuple[list[int], list[int]]:
    """Return each layer's group and block size."""
    group_of, block_sizes = [-1] * num_layers, [0] * num_layers
    for index, group in enumerate(plan.groups):
        for layer in group.layers:
            group_of[layer], block_sizes[layer] = index, group.block_size
    if -1 in group_of:
        raise ValueError(f"the KV plan has no group for layer {group_of.index(-1)}")
    return group_of, block_sizes


def _pinned_like(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
