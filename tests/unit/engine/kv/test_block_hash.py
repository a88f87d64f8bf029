from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.engine.kv.block_hash import BlockHasher
from tests.unit.engine.make import make_request

KEY = b"k" * 32


def hashes(tokens, *, salt="", model="m", key=KEY, size=4):
    request = make_request(tokens, cache_salt=salt)
    BlockHasher(model, size, key).extend(request, len(tokens) // size)
    return request.block_hashes


def test_a_hash_has_128_bits_and_covers_all_that_came_before():
    first, second = hashes([1, 2, 3, 4, 5, 6, 7, 8])
    other_first, other_second = hashes([9, 2, 3, 4, 5, 6, 7, 8])

    assert len(first) == 16
    assert first != other_first
    assert second != other_second


@pytest.mark.parametrize("change", [{"salt": "x"}, {"model": "n"}, {"key": b"l" * 32}])
def test_what_separates_requests_separates_blocks(change):
    assert hashes(range(4)) != hashes(range(4), **change)


def test_the_key_is_random_per_process_part():
    one, two = make_request(range(4)), make_request(range(4))
    BlockHasher("m", 4).extend(one, 1)
    BlockHasher("m", 4).extend(two, 1)

    assert one.block_hashes != two.block_hashes


def test_fields_do_not_run_into_each_other():
    assert hashes(range(4), model="ab", salt="c") != hashes(range(4), model="a", salt="bc")
    assert hashes(range(4), model="a\x00salt", salt="") != hashes(range(4), model="a", salt="salt")


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=40), st.integers(1, 5))
def test_hashing_step_by_step_equals_hashing_at_once(tokens, size):
    at_once = hashes(tokens, size=size)
    request, hasher = make_request(tokens), BlockHasher("m", size, KEY)

    for count in range(len(tokens) // size + 1):
        hasher.extend(request, count)
        hasher.extend(request, 0)

    assert request.block_hashes == at_once
