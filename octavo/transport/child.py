"""Start a Python process, talk to it, and let it end with its parent.

Parent and child share one socket pair, the *lifeline*. It carries messages (lists of frames)
both ways; and it closes when either process ends, however it ends, which the other one sees.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from octavo.kit.env import child_environment
from octavo.transport.base import Frames, PeerGone

_ROOT = Path(__file__).resolve().parents[2]
_MAX_FRAMES = 1024


class Lifeline:
    """One end of the socket pair. ``receive`` and ``send`` may be used from different threads."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._end.settimeout(None)

    @classmethod
    def inherited(cls, fd: int) -> Lifeline:
        """The child's end, from the descriptor named on its command line."""
        os.set_inheritable(fd, False)  # noqa: FBT003 (the os function has no keyword)
        return cls(socket.socket(fileno=fd))

    def fileno(self) -> int:
        return self._end.fileno()

    def send(self, frames: Frames) -> None:
        """Send one message.

        Raises:
            PeerGone: the other process has ended.
        """
        head = struct.pack(f"=I{len(frames)}I", len(frames), *map(len, frames))
        try:
            self._end.sendall(b"".join([head, *frames]))
        except OSError as error:
            raise PeerGone("the process at the other end has ended") from error

    def receive(self) -> Frames:
        """Wait for the next message.

        Raises:
            PeerGone: the other process has ended.
        """
        (count,) = struct.unpack("=I", self._read(4))
        if count > _MAX_FRAMES:
            raise PeerGone(f"the lifeline carries something else: {count} frames")
        sizes = struct.unpack(f"={count}I", self._read(4 * count))
        return [self._read(size) for size in sizes]

    def close(self) -> None:
        self._end.close()

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            try:
                part = self._end.recv(size - len(parts))
            except OSError as error:
                raise PeerGone("the process at the other end has ended") from error
            if not part:
                raise PeerGone("the process at the other end has ended")
            parts += part
        return bytes(parts)


class Child:
    """A Python process that runs ``main`` of a module, as its parent sees it."""

    def __init__(self, module: str, arguments: Iterable[str] = (), fds: Iterable[int] = ()) -> None:
        """Start it with ``fds`` inherited. Its first argument is the lifeline's descriptor.

        It leads a process group, so that Ctrl-C reaches the parent alone.
        """
        ours, theirs = socket.socketpair()
        self.module = module
        self.lifeline = Lifeline(ours)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(theirs.fileno()), *arguments],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), *fds),
                process_group=0,
                env=child_environment(_ROOT),
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """The exit code, None while it runs, ``-signal`` where a signal ended it."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end; return whether it came in time."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self, timeout_s: float) -> None:
        """Let go of the lifeline, wait for the end, and kill what is still there. Idempotent."""
        self.lifeline.close()
        if not self.wait(timeout_s):
            self._process.kill()
            self._process.wait()


def end_with(
    lifeline: Lifeline,
    *,
    on_message: Callable[[Frames], None] | None = None,
    farewell: Callable[[], None] | None = None,
) -> None:
    """End this process as soon as the parent has ended, whatever it is doing then.

    Messages that still come go to ``on_message``, on the thread that sleeps in ``recv`` here;
    nothing else may ``receive`` from now on. ``farewell`` runs before a sudden end.
    """

    def watch() -> None:
        try:
            while True:
                message = lifeline.receive()
                if on_message is not None:
                    on_message(message)
        except PeerGone:
            if farewell is not None:
                farewell()
            os._exit(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def describe_exit(code: int) -> str:
    """Say how a process ended: ``signal 9 (Killed)`` or ``exit code 3``."""
    if code >= 0:
        return f"exit code {code}"
    return f"signal {-code} ({signal.strsignal(-code)})"
