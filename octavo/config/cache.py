"""The KV cache."""

from __future__ import annotations

from dataclasses import dataclass

from octavo.kit.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """Size and reuse of the KV cache."""

    block_size: int
    """Tokens in one block. [tokens]"""

    num_blocks: int
    """Blocks in the pool, the padding block included."""

    dtype: str
    """Element type of keys and values."""

    prefix_caching: bool
    """Reuse blocks of equal prefixes."""

    def __post_init__(self) -> None:
        if self.block_size not in (1, 2, 4, 8, 16, 32, 64, 128):
            raise ConfigError(
                "block_size",
                self.block_size,
                want="must be a power of two from 1 to 128",
                fix="Use --block-size 16.",
            )
