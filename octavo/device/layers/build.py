"""What layers are built with, besides their own sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from octavo.device.attention.interface import AttentionBackend, AttentionSpec
from octavo.device.distributed.groups import Group
from octavo.device.quantization.base import QuantMethod


@dataclass(frozen=True, slots=True)
class Build:
    """Choices of this start that every layer shares."""

    dtype: torch.dtype
    """Weights and activations."""
    method: QuantMethod
    """How linear layers keep their weights."""
    backend_for: Callable[[AttentionSpec], AttentionBackend]
    """The attention backend of a layer; equal specs share one."""
    tensor: Group = field(default_factory=Group)
    """Ranks that split each layer."""
