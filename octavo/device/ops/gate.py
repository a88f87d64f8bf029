"""The gate of a gated feed-forward: activation of one half times the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from octavo.device.ops.by_device import cuda_kernels
from octavo.kit.errors import Unsupported

_GRAIN = 32768
"""Elements from which torch uses several threads."""


def silu_and_mul(gate_up: Tensor) -> Tensor:
    """Return ``silu(gate) * up`` of [T, 2 * I]; may overwrite ``gate_up``.

    Shapes:
        returns: [T, I], perhaps a view of ``gate_up``
    """
    if gate_up.device.type == "cuda":
        gated: Tensor = cuda_kernels("gate").silu_and_mul(gate_up)
        return gated
    gate, up = gate_up.chunk(2, dim=-1)
    for part in _serial_parts(gate):
        functional.silu(part, inplace=True)
    return gate.mul_(up)


def gelu_tanh_and_mul(gate_up: Tensor) -> Tensor:
    """Return ``gelu(gate) * up`` with the tanh form of gelu."""
    gate, up = gate_up.chunk(2, dim=-1)
    parts = [functional.gelu(part, approximate="tanh") for part in _serial_parts(gate)]
    return torch.cat(parts).mul_(up)


def gelu_and_mul(gate_up: Tensor) -> Tensor:
    """Return ``gelu(gate) * up`` with the exact form of gelu."""
    gate, up = gate_up.chunk(2, dim=-1)
    return torch.cat([functional.gelu(part) for part in _serial_parts(gate)]).mul_(up)


def _serial_parts(x: Tensor) -> Sequence[Tensor]:
    """Cut rows into parts that torch computes in one thread.

    Threads cut a tensor anywhere, and what is left over at a cut is computed by other code than
    the vectors before it, with other bits.
    """
    if x.device.type != "cpu" or torch.get_num_threads() == 1 or x.numel() < _GRAIN:
        return (x,)
    return torch.split(x, max(1, (_GRAIN - 1) // x.shape[1]))


Gate = Callable[[Tensor], Tensor]

_GATES: dict[str, Gate] = {
    "silu": silu_and_mul,
    "gelu": gelu_and_mul,
    "gelu_new": gelu_tanh_and_mul,
    "gelu_pytorch_tanh": gelu_tanh_and_mul,
}


def gate_named(activation: str) -> Gate:
    """Return the gate with this activation, named as in Hugging Face configs.

    Raises:
        Unsupported: no gate has that name.
    """
    if activation not in _GATES:
        raise Unsupported(
            f"hidden_act={activation!r}: the feed-forward knows {', '.join(sorted(_GATES))}"
        )
    return _GATES[activation]
