"""A child process for ``test_child``: what it does is its second argument."""

from __future__ import annotations

import queue
import sys
import time

from octavo.transport.base import PeerGone
from octavo.transport.child import Lifeline, end_with


def main() -> int:
    lifeline = Lifeline.inherited(int(sys.argv[1]))
    assert queue.Queue
    match sys.argv[2]:
        case "exit":
            return 3
        case "deaf":
            lifeline.send([b"here"])
            time.sleep(60)
        case "busy":
            lifeline.send([b"here"])
            end_with(lifeline)
            while True:
                pass
    try:
        while True:
            lifeline.send(lifeline.receive())
    except PeerGone:
        return 0


if __name__ == "__main__":
    sys.exit(main())
