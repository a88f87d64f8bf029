from __future__ import annotations

import random

import pytest

from octavo.engine.kv.block_pool import BlockPool, OutOfBlocks


def test_block_0_is_never_given_out():
    assert sorted(BlockPool(num_blocks=5).take(4)) == [1, 2, 3, 4]


def test_a_released_block_can_be_revived_until_it_is_taken():
    pool = BlockPool(num_blocks=3)
    [block] = pool.take(1)
    pool.publish(block, b"h")
    pool.release([block])

    assert pool.find(b"h") == block
    pool.hold([block])
    assert pool.num_free == 1

    pool.release([block])
    pool.take(2)
    assert pool.find(b"h") is None


def test_a_refused_take_changes_nothing():
    pool = BlockPool(num_blocks=5)
    pool.take(3)

    with pytest.raises(OutOfBlocks, match="need 2 blocks, 1 of 4 are free"):
        pool.take(2)

    assert pool.num_free == 1


def test_a_shared_block_is_free_when_all_have_let_go():
    pool = BlockPool(num_blocks=2)
    [block] = pool.take(1)
    pool.publish(block, b"h")
    pool.hold([block])

    pool.release([block])
    assert pool.num_references(block) == 1
    assert pool.num_free == 0
    pool.release([block])

    assert pool.num_free == 1


def test_the_tail_that_was_released_first_is_taken_first():
    pool = BlockPool(num_blocks=4)
    blocks = pool.take(3)
    for block in blocks:
        pool.publish(block, bytes([block]))

    pool.release(reversed(blocks))

    assert pool.take(3) == blocks[::-1]


def test_blocks_that_nobody_could_find_are_taken_before_cached_ones():
    pool = BlockPool(num_blocks=3)
    cached, plain = pool.take(2)
    pool.publish(cached, b"h")
    pool.release([cached])
    pool.release([plain])

    assert pool.take(1) == [plain]


def test_the_first_block_with_a_content_is_the_one_that_is_found():
    pool = BlockPool(num_blocks=3)
    first, second = pool.take(2)

    pool.publish(first, b"h")
    pool.publish(second, b"h")

    assert pool.find(b"h") == first
    assert pool.num_cached == 1


def test_forgetting_all_keeps_what_is_held():
    pool = BlockPool(num_blocks=3)
    [block] = pool.take(1)
    pool.publish(block, b"h")

    pool.forget_all()

    assert pool.find(b"h") is None
    assert pool.num_held == 1


@pytest.mark.parametrize("seed", range(20))
def test_no_block_is_lost_or_shared_by_accident(seed):
    """The oracle keeps one list of references and one table of contents."""
    rng, pool = random.Random(seed), BlockPool(num_blocks=17)
    held: list[int] = []
    content: dict[bytes, int] = {}
    for _ in range(600):
        move = rng.random()
        if move < 0.35 and held:
            pool.release([held.pop(rng.randrange(len(held)))])
        elif move < 0.6 and pool.num_free:
            [block] = pool.take(1)
            assert block not in held
            content = {name: other for name, other in content.items() if other != block}
            held.append(block)
        elif move < 0.8 and held:
            block, name = rng.choice(held), bytes([rng.randrange(12)])
            pool.publish(block, name)
            if name not in content and block not in content.values():
                content[name] = block
        else:
            name = bytes([rng.randrange(12)])
            block = pool.find(name)
            assert block == content.get(name)
            if block is not None:
                pool.hold([block])
                held.append(block)
        assert pool.num_held == len(set(held))
        assert pool.num_free + pool.num_held == 16
        assert all(pool.num_references(block) == held.count(block) for block in range(17))
