from __future__ import annotations

import pytest

from octavo.config.cache import CacheConfig
from octavo.contracts.kv import KVCacheSpec
from octavo.engine.kv.plan import kv_bytes, plan_kv_cache
from octavo.kit.errors import ConfigError, Unsupported


def cache(num_blocks: int = 101, block_size: int = 16) -> CacheConfig:
    return CacheConfig(
        block_size=block_size, num_blocks=num_blocks, dtype="float32", prefix_caching=True
    )


def spec(layer: int, kind: str = "full", *, size: int = 16, window=None, num_bytes: int = 256):
    return KVCacheSpec(layer, kind, size, num_bytes, window)


def test_layers_of_one_kind_share_a_table_and_have_a_tensor_each():
    plan = plan_kv_cache([spec(i) for i in range(3)], cache(), max_model_len=1600)

    assert [group.layers for group in plan.groups] == [[0, 1, 2]]
    assert [tensor.layers for tensor in plan.tensors] == [[0], [1], [2]]
    assert plan.num_blocks == 101
    assert kv_bytes(plan) == 3 * 101 * 256


def test_a_tensor_is_shared_by_one_layer_of_each_group():
    specs = [spec(i, "window" if i % 3 else "full", window=64 if i % 3 else None) for i in range(7)]

    plan = plan_kv_cache(specs, cache(), max_model_len=160)

    assert [(group.kind, group.window, group.layers) for group in plan.groups] == [
        ("full", None, [0, 3, 6]),
        ("window", 64, [1, 2, 4]),
        ("window", 64, [5]),
    ]
    assert [tensor.layers for tensor in plan.tensors] == [[0, 1, 5], [3, 2], [6, 4]]
    assert sorted(i for tensor in plan.tensors for i in tensor.layers) == list(range(7))


def test_the_longest_request_must_fit_alone():
    with pytest.raises(ConfigError, match=r"needs 101 KV blocks, and there are 100.*to 1600 or"):
        plan_kv_cache([spec(0)], cache(), max_model_len=1601)


def test_every_group_needs_blocks_for_the_longest_request():
    specs = [spec(0), spec(1, "window", window=64)]

    with pytest.raises(ConfigError, match=r"needs 102 KV blocks.*to 800 or"):
        plan_kv_cache(specs, cache(), max_model_len=816)


@pytest.mark.parametrize(
    "specs", [[spec(0), spec(1, num_bytes=512)], [spec(0), spec(1, size=32)], [spec(0, size=32)]]
)
def test_blocks_of_different_size_are_refused(specs):
    with pytest.raises(Unsupported, match="blocks must hold 16 tokens and be equally large"):
        plan_kv_cache(specs, cache(), max_model_len=160)


def test_a_model_without_attention_is_refused():
    with pytest.raises(Unsupported, match="no attention layer"):
        plan_kv_cache([], cache(), max_model_len=160)
