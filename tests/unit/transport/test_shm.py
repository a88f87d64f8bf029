"""The shared-memory ring, inside a process and between processes."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.transport.base import PeerGone
from octavo.transport.shm import RingReader, RingWriter, receive_any
from octavo.transport.shm_ends import ReaderFds, WriterFds, make_ring

_SMALL = 1024


def _ends(num_readers: int = 1, capacity: int = _SMALL) -> tuple[RingWriter, list[RingReader]]:
    writer, readers = make_ring(num_readers, capacity)
    ends = [
        RingReader(fds, reader=index, num_readers=num_readers) for index, fds in enumerate(readers)
    ]
    return RingWriter(writer), ends


def _send_without_end(writer: RingWriter, timeout_s: float) -> None:
    for number in itertools.count():
        writer.send([b"%d" % number, bytes(100)], timeout_s)


def _send_and_ignore(writer: RingWriter, body: bytes) -> None:
    with contextlib.suppress(PeerGone):
        writer.send([body], 5)


def _close(writer: RingWriter, readers: list[RingReader]) -> None:
    for end in (writer, *readers):
        end.close()
        end.close()


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(st.binary(max_size=120), min_size=1, max_size=4), max_size=60),
    st.integers(1, 3),
)
def test_every_reader_gets_every_message_whole_and_in_order(
    messages: list[list[bytes]], num_readers: int
) -> None:
    writer, readers = _ends(num_readers)
    got: list[list[list[bytes]]] = [[] for _ in readers]
    for message in messages:
        writer.send([*message], 5)
        for index, reader in enumerate(readers):
            frames = reader.receive(5)
            assert frames is not None
            got[index].append([bytes(frame) for frame in frames])
        assert all(reader.receive(0) is None for reader in readers)
    _close(writer, readers)

    assert all(each == messages for each in got)


def test_old_bytes_that_look_like_the_next_record_are_not_taken() -> None:
    writer, [reader] = _ends(capacity=256)
    look_alikes = b"".join(number.to_bytes(8, sys.byteorder) for number in range(1, 8))
    for number in range(1, 300):
        body = b"".join((number + k).to_bytes(8, sys.byteorder) for k in range(number % 5))
        writer.send([body or look_alikes[:8]], 5)
        assert reader.receive(5) == [body or look_alikes[:8]]
        assert reader.receive(0) is None
    _close(writer, [reader])


def test_a_message_above_a_quarter_goes_by_socket_in_order() -> None:
    writer, [reader] = _ends()
    long = os.urandom(3_000_000)
    got: list[bytes] = []

    def read() -> None:
        for _ in range(3):
            frames = reader.receive(10)
            assert frames is not None
            got.append(bytes(frames[-1]))

    thread = threading.Thread(target=read)
    thread.start()
    for body in (b"before", long, b"after"):
        writer.send([b"head", body], 5)
    thread.join()
    _close(writer, [reader])

    assert got == [b"before", long, b"after"]


def test_a_full_ring_times_out_and_goes_on_when_there_is_room() -> None:
    writer, [reader] = _ends()
    with pytest.raises(TimeoutError):
        _send_without_end(writer, 0.02)

    number = 0
    while frames := reader.receive(0):
        assert frames[0] == b"%d" % number
        number += 1
    assert number > 4
    writer.send([b"again"], 0.02)

    assert reader.receive(0) == [b"again"]
    _close(writer, [reader])


def test_a_slow_reader_holds_the_writer_back_and_loses_nothing() -> None:
    writer, readers = _ends(num_readers=2)
    got: list[list[int]] = [[], []]

    def read(index: int, pause_s: float) -> None:
        for _ in range(200):
            frames = readers[index].receive(20)
            assert frames is not None
            got[index].append(int(bytes(frames[0])))
            time.sleep(pause_s)

    threads = [threading.Thread(target=read, args=each) for each in ((0, 0), (1, 0.001))]
    for thread in threads:
        thread.start()
    for number in range(200):
        writer.send([b"%d" % number, bytes(number)], 10)
    for thread in threads:
        thread.join()
    _close(writer, readers)

    assert got == [list(range(200))] * 2


def test_what_was_sent_arrives_before_the_end() -> None:
    writer, [reader] = _ends()
    writer.send([b"last"])
    writer.close()

    assert reader.receive(None) == [b"last"]
    with pytest.raises(PeerGone):
        reader.receive(None)
    reader.close()


def test_a_reader_that_ended_is_seen_where_the_writer_would_wait() -> None:
    writer, [reader] = _ends()
    reader.close()

    with pytest.raises(PeerGone):
        _send_without_end(writer, 5)
    writer.close()


def test_a_long_message_to_a_reader_that_ended_is_refused() -> None:
    writer, [reader] = _ends()
    reader.close()

    with pytest.raises(PeerGone):
        writer.send([bytes(1_000_000)], 5)
    writer.close()


def test_a_writer_that_ends_inside_a_long_message_is_seen() -> None:
    fds, [reader_fds] = make_ring(1, _SMALL)
    bulk = os.dup(fds.bulks[0])
    writer, reader = RingWriter(fds), RingReader(reader_fds)
    sending = threading.Thread(target=_send_and_ignore, args=(writer, bytes(10_000_000)))
    sending.start()
    time.sleep(0.05)
    with socket.socket(fileno=bulk) as torn:
        torn.shutdown(socket.SHUT_RDWR)
    sending.join()

    with pytest.raises(PeerGone, match="inside a message"):
        reader.receive(5)
    _close(writer, [reader])


def test_waiting_for_several_rings_names_the_one_that_spoke_or_ended() -> None:
    first, [one] = _ends()
    second, [other] = _ends()
    second.send([b"hello"])

    assert receive_any([one, other], 1) == (1, [b"hello"])
    assert receive_any([one, other], 0) is None

    first.close()
    with pytest.raises(PeerGone) as gone:
        receive_any([one, other], None)
    assert gone.value.args[1] == 0
    _close(second, [one, other])


def test_descriptors_survive_a_command_line() -> None:
    reader = ReaderFds(3, 4, 5)
    writer = WriterFds(3, (4, 5), (6, 7))

    assert ReaderFds.parse(str(reader)) == reader
    assert WriterFds.parse(str(writer)) == writer


def test_a_capacity_that_cannot_hold_records_is_refused() -> None:
    with pytest.raises(ValueError, match="capacity=100"):
        make_ring(1, 100)


_SENDER = """
import os, random, sys
from octavo.transport.shm import RingWriter
from octavo.transport.shm_ends import WriterFds
writer = RingWriter(WriterFds.parse(sys.argv[1]))
rng = random.Random(int(sys.argv[2]))
for number in range(3000):
    size = rng.choice((0, 1, 15, 16, 17, 100, 240, 700, 5000))
    writer.send([b"%d" % number, rng.randbytes(size)], 30)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("seed", range(2))
def test_between_processes_nothing_is_lost_or_torn_and_death_is_seen(seed: int) -> None:
    writer, fds = make_ring(2, 4096)
    process = subprocess.Popen(
        [sys.executable, "-c", _SENDER, str(writer), str(seed)], pass_fds=writer.all
    )
    for fd in writer.all:
        os.close(fd)
    readers = [RingReader(each, reader=index, num_readers=2) for index, each in enumerate(fds)]
    oracle = random.Random(seed)
    for number in range(3000):
        body = oracle.randbytes(oracle.choice((0, 1, 15, 16, 17, 100, 240, 700, 5000)))
        for reader in readers:
            assert reader.receive(20) == [b"%d" % number, body]
    for reader in readers:
        with pytest.raises(PeerGone):
            reader.receive(20)
        reader.close()

    assert process.wait() == -9


def test_waiting_costs_no_cpu() -> None:
    writer, [reader] = _ends()
    before = time.thread_time()

    assert reader.receive(0.5) is None

    assert time.thread_time() - before < 0.01
    _close(writer, [reader])
