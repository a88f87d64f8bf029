from __future__ import annotations

import pytest

from octavo.contracts.kv import KVCacheConfig, KVGroup
from octavo.engine.kv.manager import KVCacheManager
from tests.unit.engine.make import make_request


def make_manager(num_blocks: int = 21, *, num_groups: int = 1, prefix_caching: bool = True):
    groups = [KVGroup("full", [i], 4) for i in range(num_groups)]
    return KVCacheManager(
        KVCacheConfig(num_blocks, groups, []), model="m", prefix_caching=prefix_caching
    )


def start(kv: KVCacheManager, request) -> int:
    hit = kv.find_hit(request)
    assert kv.try_start(request, hit)
    return hit.num_tokens


def compute(kv: KVCacheManager, request, num_tokens: int) -> None:
    request.num_confirmed_tokens = num_tokens
    if num_tokens >= request.publish_at:
        kv.publish(request)


@pytest.mark.parametrize("num_groups", [1, 2, 3])
def test_a_second_request_shares_the_full_blocks_but_computes_a_token(num_groups):
    kv = make_manager(num_groups=num_groups)
    first, second = make_request(range(8)), make_request(range(8), sequence=2)
    start(kv, first)
    compute(kv, first, 8)

    assert start(kv, second) == 4

    for mine, others in zip(second.block_ids, first.block_ids, strict=True):
        assert mine[0] == others[0]
        assert mine[1] != others[1]


def test_groups_do_not_take_each_others_blocks():
    kv = make_manager(num_groups=2)
    first, second = make_request(range(9)), make_request(range(9), sequence=2)
    start(kv, first)
    compute(kv, first, 9)
    start(kv, second)

    assert [blocks[:2] for blocks in second.block_ids] == [b[:2] for b in first.block_ids]
    assert not set(second.block_ids[0]) & set(second.block_ids[1])


def test_a_start_that_does_not_fit_changes_nothing():
    kv = make_manager(num_blocks=4)
    request = make_request(range(16))

    assert not kv.try_start(request, kv.find_hit(request))

    assert kv.num_free_blocks == 3
    assert request.block_ids == []


def test_free_blocks_of_a_hit_count_as_used():
    kv = make_manager(num_blocks=5)
    first = make_request(range(13))
    start(kv, first)
    compute(kv, first, 13)
    kv.release(first)
    second = make_request([*range(12), 99, 100, 101, 102, 103], sequence=2)

    assert kv.find_hit(second).num_tokens == 12
    assert kv.num_blocks_to_start(second, kv.find_hit(second)) == 5
    assert not kv.try_start(second, kv.find_hit(second))


def test_growth_takes_blocks_for_each_group_or_none():
    kv = make_manager(num_blocks=6, num_groups=2)
    request = make_request(range(8))
    start(kv, request)

    assert kv.try_grow(request, 9) == 0
    assert kv.num_free_blocks == 1
    assert request.capacity == 8


def test_growth_adds_as_many_blocks_as_are_missing():
    kv = make_manager()
    request = make_request(range(4))
    start(kv, request)

    assert kv.try_grow(request, 13) == 3
    assert request.capacity == 16


def test_others_see_what_is_being_computed_until_it_is_published_or_given_up():
    kv = make_manager()
    first, second = make_request(range(12)), make_request(range(12), sequence=2)
    start(kv, first)

    assert kv.is_being_computed(kv.find_hit(second).next_hash)
    compute(kv, first, 4)
    assert kv.find_hit(second).num_tokens == 4
    assert kv.is_being_computed(kv.find_hit(second).next_hash)
    kv.release(first)

    assert not kv.is_being_computed(kv.find_hit(second).next_hash)
    assert kv.find_hit(second).num_tokens == 4


def test_the_block_that_must_stay_to_compute_is_waited_for_by_nobody():
    kv = make_manager()
    start(kv, make_request(range(4)))

    assert kv.find_hit(make_request(range(4), sequence=2)).next_hash is None


def test_without_prefix_caching_nothing_is_found_or_waited_for():
    kv = make_manager(prefix_caching=False)
    first, second = make_request(range(12)), make_request(range(12), sequence=2)
    start(kv, first)
    compute(kv, first, 12)

    assert start(kv, second) == 0
    assert not kv.is_being_computed(kv.find_hit(second).next_hash)
    assert kv.num_cached_blocks == 0


def test_forgetting_prefixes_says_how_many_there_were():
    kv = make_manager()
    request = make_request(range(12))
    start(kv, request)
    compute(kv, request, 12)

    assert kv.forget_prefixes() == 3
    assert kv.find_hit(make_request(range(12), sequence=2)).num_tokens == 0


def test_releasing_gives_every_block_back():
    kv = make_manager(num_groups=2)
    request = make_request(range(12))
    start(kv, request)
    assert kv.usage == 6 / 20

    kv.release(request)

    assert kv.usage == 0
    assert kv.num_free_blocks == 20
