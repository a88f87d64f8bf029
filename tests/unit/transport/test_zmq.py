"""The channel between processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from octavo.transport.base import PeerGone
from octavo.transport.rendezvous import Rendezvous
from octavo.transport.zmq import ZmqEngine, ZmqFrontend


@pytest.fixture
def meeting() -> Iterator[Rendezvous]:
    rendezvous = Rendezvous()
    yield rendezvous
    rendezvous.remove()


def test_messages_sent_before_the_engine_connects_arrive(meeting: Rendezvous) -> None:
    async def talk() -> list[bytes | memoryview]:
        frontend = ZmqFrontend(meeting.path)
        await frontend.send([b"early", b""])
        await frontend.send([b"second"])
        thread = threading.Thread(target=_echo, args=(meeting.path, 2))
        thread.start()
        first = await frontend.receive()
        second = await frontend.receive()
        thread.join()
        frontend.close()
        frontend.close()
        return [*first, *second]

    assert asyncio.run(talk()) == [b"early", b"", b"second"]


def test_an_engine_may_connect_before_the_frontend_binds(meeting: Rendezvous) -> None:
    engine = ZmqEngine(meeting.path)
    engine.send([b"first"])

    async def talk() -> list[bytes | memoryview]:
        frontend = ZmqFrontend(meeting.path)
        message = await asyncio.wait_for(frontend.receive(), 5)
        frontend.close()
        return message

    message = asyncio.run(talk())
    engine.close()

    assert message == [b"first"]


def test_many_messages_both_ways_at_once_are_neither_lost_nor_reordered(
    meeting: Rendezvous,
) -> None:
    async def talk() -> list[bytes]:
        frontend = ZmqFrontend(meeting.path)
        thread = threading.Thread(target=_echo, args=(meeting.path, 2000))
        thread.start()

        async def feed() -> None:
            for number in range(2000):
                await frontend.send([b"%d" % number, bytes(number)])
                if number % 97 == 0:
                    await asyncio.sleep(0.001)

        feeding = asyncio.ensure_future(feed())
        heads = [bytes((await frontend.receive())[0]) for _ in range(2000)]
        await feeding
        thread.join()
        frontend.close()
        return heads

    assert asyncio.run(asyncio.wait_for(talk(), 60)) == [b"%d" % number for number in range(2000)]


def test_a_timeout_gives_none(meeting: Rendezvous) -> None:
    engine = ZmqEngine(meeting.path)

    assert engine.receive(0) is None
    assert engine.receive(0.01) is None
    engine.close()
    engine.close()


_DYING = """
import os, sys
from octavo.transport.zmq import ZmqEngine
engine = ZmqEngine(sys.argv[1])
engine.send([b"last words"])
engine.receive(None)
os.kill(os.getpid(), 9)
"""


def test_the_death_of_the_engine_is_seen_after_its_last_words(meeting: Rendezvous) -> None:
    async def talk() -> list[bytes | memoryview]:
        frontend = ZmqFrontend(meeting.path)
        process = _start(meeting.path)
        message = await frontend.receive()
        await frontend.send([b"die"])
        with pytest.raises(PeerGone):
            await asyncio.wait_for(frontend.receive(), 10)
        with pytest.raises(PeerGone):
            await frontend.send([b"anyone?"])
        frontend.close()
        assert process.wait() == -9
        return message

    assert asyncio.run(talk()) == [b"last words"]


def _start(path: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", _DYING, path])


def _echo(path: str, count: int) -> None:
    engine = ZmqEngine(path)
    for _ in range(count):
        frames = engine.receive(10)
        assert frames is not None
        engine.send(frames)
    engine.close()
