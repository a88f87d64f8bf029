from __future__ import annotations

from octavo.engine.kv.prefix_index import PrefixIndex


def test_a_block_is_found_by_its_content_until_it_is_forgotten():
    index = PrefixIndex()
    index.add(4, b"a")

    assert index.find(b"a") == 4
    assert 4 in index
    index.forget(4)
    index.forget(4)

    assert index.find(b"a") is None
    assert len(index) == 0


def test_a_block_keeps_its_first_content():
    index = PrefixIndex()
    index.add(4, b"a")
    index.add(4, b"b")

    assert index.find(b"b") is None
    index.forget(4)
    assert index.find(b"a") is None


def test_clear_forgets_everything():
    index = PrefixIndex()
    index.add(4, b"a")

    index.clear()

    assert 4 not in index
