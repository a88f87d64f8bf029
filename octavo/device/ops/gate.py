"""The gate of a gated feed-forward: activation of one half times the other."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional

from octavo.kit.errors import Unsupported


def silu_and_mul(gate_up: Tensor) -> Tensor:
    """Return ``silu(gate) * up`` of [T, 2 * I]; overwrites ``gate_up``.

    Shapes:
        returns: [T, I], a view of ``gate_up``
    """
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.silu(gate, inplace=True).mul_(up)


def gelu_tanh_and_mul(gate_up: Tensor) -> Tensor:
    """Return ``gelu(gate) * up`` with the tanh form of gelu."""
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.gelu(gate, approximate="tanh").mul_(up)


def gelu_and_mul(gate_up: Tensor) -> Tensor:
    """Return ``gelu(gate) * up`` with the exact form of gelu."""
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.gelu(gate).mul_(up)


_GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": silu_and_mul,
    "gelu": gelu_and_mul,
    "gelu_new": gelu_tanh_and_mul,
    "gelu_pytorch_tanh": gelu_tanh_and_mul,
}


def gate_named(activation: str) -> Callable[[Tensor], Tensor]:
    """Return the gate with this activation, named as in Hugging Face configs.

    Raises:
        Unsupported: no gate has that name.
    """
    if activation not in _GATES:
        raise Unsupported(
            f"hidden_act={activation!r}: the feed-forward knows {', '.join(sorted(_GATES))}"
        )
    return _GATES[activation]
