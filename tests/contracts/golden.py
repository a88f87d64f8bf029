"""The recorded bytes of every message, beside the code that records them.

``python -m tests.contracts.golden`` writes them anew. A difference is a change of the wire:
look at it before you commit it.
"""

from __future__ import annotations

from pathlib import Path

from octavo.contracts.codec import Codec
from tests.contracts.samples import full, least, message_types

FILE = Path(__file__).with_name("golden.txt")


def read_golden() -> dict[str, list[bytes]]:
    """Return the recorded frames by ``"Type sample"``."""
    lines = [line.split(": ") for line in FILE.read_text().splitlines()]
    return {name: [bytes.fromhex(frame) for frame in frames.split(" ")] for name, frames in lines}


def make_golden() -> dict[str, list[bytes]]:
    """Return the frames that the code makes now."""
    made: dict[str, list[bytes]] = {}
    for kind in message_types():
        for sample in (full, least):
            frames = Codec(kind).encode(sample(kind))
            made[f"{kind.__name__} {sample.__name__}"] = [bytes(frame) for frame in frames]
    return made


if __name__ == "__main__":
    golden = make_golden()
    FILE.write_text(
        "".join(f"{name}: {' '.join(f.hex() for f in frames)}\n" for name, frames in golden.items())
    )
