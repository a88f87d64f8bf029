from __future__ import annotations

from octavo.contracts.kv import KVGroup
from octavo.engine.kv.policies.full import FullPolicy

POLICY = FullPolicy(KVGroup("full", [0], 4))


def test_a_hit_ends_at_the_first_block_that_is_missing():
    cached = {b"a": 1, b"b": 2, b"d": 4}

    assert POLICY.hit([b"a", b"b", b"c", b"d"], cached.get) == [1, 2]
    assert POLICY.hit([], cached.get) == []


def test_a_part_of_a_block_needs_a_block():
    assert [POLICY.num_blocks(n) for n in (0, 1, 4, 5, 8, 9)] == [0, 1, 1, 2, 2, 3]
