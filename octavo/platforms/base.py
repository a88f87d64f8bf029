"""What a platform must say about itself. No torch: facts come from the system and the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from octavo.kit.env import Environment
from octavo.kit.errors import Unsupported
from octavo.kit.extension import ExtensionPoint

PLATFORMS = ExtensionPoint(
    group="octavo.platforms", package="octavo.platforms", attribute="PLATFORM"
)

EVERYWHERE = "cpu"
"""The platform that every machine has; it is asked last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformFacts:
    """One kind of device on this machine, and what suits it."""

    name: str
    device_name: str
    num_devices: int
    total_memory_bytes: int
    """Of one device. [bytes]"""
    available_memory_bytes: int
    """Of one device, now. [bytes]"""
    claimable_memory_bytes: int
    """What ``--gpu-memory-utilization`` is a part of. [bytes]"""
    threads: int
    """Cores that this process may use."""
    dtypes: tuple[str, ...]
    """Element types it computes with; the first is the default."""
    prefers_checkpoint_dtype: bool
    """Weights keep the checkpoint's type, where ``dtypes`` has it."""
    attention_backends: tuple[str, ...]
    """In order of preference; those that octavo does not have are passed over."""
    has_exact_path: bool
    """Whether every op of a model can be independent of the batch, to the bit."""
    default_max_num_seqs: int
    default_max_num_batched_tokens: int
    max_kv_cache_bytes: int | None
    """Most memory that the KV cache takes unasked; None takes what utilization leaves. [bytes]"""


class NotHere(Exception):
    """The machine has no such device; the text says how that was found."""


class Platform(Protocol):
    """How to find out about one kind of device. ``PLATFORM`` of a module is an instance."""

    def probe(self, env: Environment) -> PlatformFacts:
        """Ask the machine; takes no device context.

        Raises:
            NotHere: there is no such device.
        """


def probe_platform(name: str, env: Environment) -> PlatformFacts:
    """Return the facts of the platform called ``name``.

    Raises:
        Unsupported: there is no such platform, or this machine has none.
    """
    known = PLATFORMS.names()
    if name not in known:
        raise Unsupported(f"device={name!r}: octavo knows {', '.join(known)}. Use --device auto.")
    platform: Platform = PLATFORMS.load(name)
    try:
        return platform.probe(env)
    except NotHere as reason:
        raise Unsupported(
            f"device={name!r}: {reason}. Use --device {EVERYWHERE}, or a machine that has one."
        ) from reason


def present_platforms(env: Environment) -> tuple[list[PlatformFacts], list[str]]:
    """Return what this machine has, accelerators first, and a reason for each that is absent."""
    present: list[PlatformFacts] = []
    absent: list[str] = []
    for name in in_order(PLATFORMS.names()):
        platform: Platform = PLATFORMS.load(name)
        try:
            present.append(platform.probe(env))
        except NotHere as reason:
            absent.append(f"{name}: {reason}")
    return present, absent


def in_order(names: Sequence[str]) -> list[str]:
    """Accelerators by name, then the platform that is everywhere."""
    return sorted(names, key=lambda name: (name == EVERYWHERE, name))
