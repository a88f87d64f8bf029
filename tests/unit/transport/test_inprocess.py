"""The channel inside one process."""

from __future__ import annotations

import asyncio
import threading

import pytest

from octavo.transport.base import PeerGone
from octavo.transport.inprocess import channel


def test_messages_cross_in_both_directions_in_order() -> None:
    frontend, engine = channel()

    def echo() -> None:
        for _ in range(500):
            frames = engine.receive(5)
            assert frames is not None
            engine.send([*frames, b"back"])

    async def talk() -> list[bytes]:
        for number in range(500):
            await frontend.send([b"%d" % number])
        return [bytes((await frontend.receive())[0]) for _ in range(500)]

    thread = threading.Thread(target=echo)
    thread.start()
    answers = asyncio.run(talk())
    thread.join()

    assert answers == [b"%d" % number for number in range(500)]


def test_waiting_wakes_up_for_each_late_message() -> None:
    frontend, engine = channel()

    async def talk() -> int:
        count = 0
        for _ in range(200):
            waiting = asyncio.ensure_future(frontend.receive())
            await asyncio.sleep(0)
            threading.Thread(target=engine.send, args=([b"x"],)).start()
            count += len(await asyncio.wait_for(waiting, 5))
        return count

    assert asyncio.run(talk()) == 200


def test_a_timeout_gives_none() -> None:
    _, engine = channel()

    assert engine.receive(0) is None
    assert engine.receive(0.01) is None


def test_what_was_sent_arrives_before_the_end() -> None:
    frontend, engine = channel()
    engine.send([b"last"])
    engine.close()
    engine.close()

    async def talk() -> list[bytes | memoryview]:
        last = await frontend.receive()
        with pytest.raises(PeerGone):
            await frontend.receive()
        with pytest.raises(PeerGone):
            await frontend.send([b"x"])
        return last

    assert asyncio.run(talk()) == [b"last"]


def test_the_end_wakes_a_waiting_frontend() -> None:
    frontend, engine = channel()

    async def talk() -> None:
        waiting = asyncio.ensure_future(frontend.receive())
        await asyncio.sleep(0)
        threading.Thread(target=engine.close).start()
        with pytest.raises(PeerGone):
            await asyncio.wait_for(waiting, 5)

    asyncio.run(talk())
