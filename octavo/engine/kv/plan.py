"""Memory + KVCacheSpecs to KVCacheConfig."""

from __future__ import annotations

from itertools import groupby

from octavo.config.cache import CacheConfig
from octavo.contracts.kv import KVCacheConfig, KVCacheSpec, KVGroup, KVTensor
from octavo.kit.errors import ConfigError, Unsupported


def plan_kv_cache(
    specs: list[KVCacheSpec], cache: CacheConfig, *, max_model_len: int
) -> KVCacheConfig:
    """Put layers of one kind into groups of equal size, and one layer of each group on a tensor.

    Layers of one group share a block table. Blocks of all groups come from one pool, so they
    are equally large, and a block serves one group at a time; a tensor is therefore shared by
    the first layers of all groups, the next by the second ones, and so on.

    Raises:
        Unsupported: the layers' blocks differ in size.
        ConfigError: one request of ``max_model_len`` does not fit.
    """
    _check_equal_blocks(specs, cache.block_size)
    groups = _groups(specs)
    _check_longest_request(cache, num_groups=len(groups), max_model_len=max_model_len)
    tensors = [
        KVTensor(
            layers=[group.layers[place] for group in groups if place < len(group.layers)],
            bytes_per_block=specs[0].bytes_per_block,
        )
        for place in range(max(len(group.layers) for group in groups))
    ]
    return KVCacheConfig(num_blocks=cache.num_blocks, groups=groups, tensors=tensors)


def kv_bytes(kv_cache: KVCacheConfig) -> int:
    """Return the memory of all tensors of a plan, in bytes."""
    return kv_cache.num_blocks * sum(tensor.bytes_per_block for tensor in kv_cache.tensors)


def _groups(specs: list[KVCacheSpec]) -> list[KVGroup]:
    kinds = [list(layers) for _, layers in groupby(sorted(specs, key=_kind_then_layer), key=_kind)]
    size = min(len(layers) for layers in kinds)
    return [
        KVGroup(
            kind=layers[0].kind,
            layers=[spec.layer for spec in layers[start : start + size]],
            block_size=layers[0].block_size,
            window=layers[0].window,
        )
        for layers in kinds
        for start in range(0, len(layers), size)
    ]


def _kind(spec: KVCacheSpec) -> tuple[str, int]:
    return (spec.kind, spec.window or 0)


def _kind_then_layer(spec: KVCacheSpec) -> tuple[str, int, int]:
    return (*_kind(spec), spec.layer)


def _check_equal_blocks(specs: list[KVCacheSpec], block_size: int) -> None:
    if not specs:
        raise Unsupported("the model has no attention layer, so there is no KV cache to plan.")
    first = specs[0]
    for spec in specs:
        if spec.block_size != block_size or spec.bytes_per_block != first.bytes_per_block:
            raise Unsupported(
                f"layer {spec.layer} keeps {spec.bytes_per_block} bytes for {spec.block_size} "
                f"tokens and layer {first.layer} keeps {first.bytes_per_block} bytes for "
                f"{first.block_size}; blocks must hold {block_size} tokens and be equally large."
            )


def _check_longest_request(cache: CacheConfig, *, num_groups: int, max_model_len: int) -> None:
    needed = num_groups * -(-max_model_len // cache.block_size)
    if cache.num_blocks - 1 >= needed:
        return
    fits = (cache.num_blocks - 1) // num_groups * cache.block_size
    raise ConfigError(
        "max_model_len",
        max_model_len,
        want=f"needs {needed} KV blocks, and there are {max(cache.num_blocks - 1, 0)}",
        fix=f"Lower --max-model-len to {fits} or raise --kv-cache-memory-bytes.",
    )
