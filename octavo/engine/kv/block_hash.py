"""Chained hash of token blocks, over tagged fields of everything the content depends on."""

from __future__ import annotations

from array import array
from hashlib import blake2b
from secrets import token_bytes

from octavo.engine.request import BlockHash, Request

_HASH_BYTES = 16
_ROOT, _BLOCK = b"octavo root", b"octavo block"


class BlockHasher:
    """Names the content of a block by everything its keys and values depend on.

    The hash of a block covers its tokens and the hash of the block before it; the first one is
    chained to a root that covers the model and what separates requests. Fields are tagged and
    their lengths written down, so no two contents read the same. The key is random per process:
    nobody outside can construct two prompts with the same hash.
    """

    def __init__(self, model: str, block_size: int, key: bytes | None = None) -> None:
        self._model = model
        self._block_size = block_size
        self._key = key or token_bytes(32)

    def extend(self, request: Request, num_blocks: int) -> None:
        """Make sure the hashes of the first ``num_blocks`` blocks of ``request`` are known."""
        hashes = request.block_hashes
        if len(hashes) >= num_blocks:
            return
        size, token_ids = self._block_size, request.token_ids
        parent = hashes[-1] if hashes else self._root(request.cache_salt)
        for start in range(len(hashes) * size, num_blocks * size, size):
            content = array("q", token_ids[start : start + size])
            parent = self._digest(parent + content.tobytes(), _BLOCK)
            hashes.append(parent)

    def _root(self, salt: str) -> BlockHash:
        fields = {"model": self._model, "salt": salt}
        packed = bytearray()
        for name, value in fields.items():
            for text in (name.encode(), value.encode()):
                packed += len(text).to_bytes(8, "little") + text
        return self._digest(bytes(packed), _ROOT)

    def _digest(self, content: bytes, purpose: bytes) -> BlockHash:
        return BlockHash(
            blake2b(content, digest_size=_HASH_BYTES, key=self._key, person=purpose).digest()
        )
