"""Matrix product of activations and a weight, with the same bits for a row in any company.

On CPU a weight is packed once into the layout of oneDNN, whose product of a row does not depend
on how many rows there are, with exceptions that a check at start finds for each shape.
docs/decisions/ has the figures. On CUDA ``cuda/product.py`` chooses.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from octavo.device.ops.by_device import cuda_kernels
from octavo.device.ops.gate import Gate, silu_and_mul

_TILE = 16
"""Rows of a product where no other number of rows gives the same bits."""
_FEWER = (15, 8, 4, 2, 1)
_MORE = (17, 32, 33, 64, 128)
"""Numbers of rows that the check compares with the tile, nearest first."""
_FEWER_LARGE = (8, 1)
_MORE_LARGE = (33,)
_LARGE = 8 << 20
"""Elements of a weight above which the check makes fewer products, to stay in milliseconds."""
_UNLIMITED = 1 << 30


@dataclass(frozen=True, slots=True)
class RowRule:
    """Numbers of rows with which one shape of weight gives a row the same bits."""

    least: int
    most: int


class DeviceProduct(Protocol):
    """How a device multiplies by one weight."""

    def linear(self, x: Tensor) -> Tensor:
        """Return ``x @ weight.T``."""

    def gated(self, x: Tensor) -> Tensor:
        """Return ``silu_and_mul(linear(x))``, bit by bit."""


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """A weight as the product wants it."""

    weight: Tensor
    rule: RowRule
    is_packed: bool
    """In oneDNN's layout, else plain."""
    product: DeviceProduct | None = None
    """None on CPU."""


class Packer:
    """Packs weights, and checks each distinct shape once."""

    def __init__(self) -> None:
        self._rules: dict[tuple[torch.Size, torch.dtype], RowRule] = {}
        self._library: dict[tuple[torch.Size, torch.dtype], Any] = {}  # Any: a device's own rule

    def pack(self, weight: Tensor) -> PackedWeight:
        """Return ``weight`` ready for ``linear``; it may be a copy."""
        if weight.device.type == "cuda":
            return self._on_cuda(weight)
        if weight.device.type != "cpu":
            return PackedWeight(weight, RowRule(1, _UNLIMITED), is_packed=False)
        is_packed = _has_onednn() and weight.dtype in _onednn_dtypes()
        if is_packed:
            weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _TILE)
        key = (weight.shape, weight.dtype)
        if key not in self._rules:
            self._rules[key] = _row_rule(weight, is_packed=is_packed)
        return PackedWeight(weight, self._rules[key], is_packed)

    def _on_cuda(self, weight: Tensor) -> PackedWeight:
        kernels, key = cuda_kernels("product"), (weight.shape, weight.dtype)
        if key not in self._library:
            self._library[key] = kernels.find_rule(weight)
        product = kernels.Product(weight, self._library[key])
        return PackedWeight(weight, RowRule(1, _UNLIMITED), is_packed=False, product=product)


def linear(x: Tensor, packed: PackedWeight, bias: Tensor | None = None) -> Tensor:
    """Return ``x @ weight.T + bias``; each row's bits are those it would have alone.

    Shapes:
        x: [T, in]
        returns: [T, out]
    """
    if packed.product is not None:
        out = packed.product.linear(x)
        return out if bias is None else out.add_(bias)
    rows, rule = x.shape[0], packed.rule
    if rule.least <= rows <= rule.most:
        return _product(x, packed.weight, bias, is_packed=packed.is_packed)
    if rows < rule.least:
        padded = functional.pad(x, (0, 0, 0, rule.least - rows))
        return _product(padded, packed.weight, bias, is_packed=packed.is_packed)[:rows]
    return torch.cat([linear(part, packed, bias) for part in torch.split(x, rule.most)])


def gated_linear(x: Tensor, packed: PackedWeight, bias: Tensor | None, gate: Gate) -> Tensor:
    """Return ``gate(linear(x))``; ``packed`` is two matrices, gate over up.

    Shapes:
        x: [T, in]
        returns: [T, out / 2]
    """
    if packed.product is not None and bias is None and gate is silu_and_mul:
        return packed.product.gated(x)
    return gate(linear(x, packed, bias))


def reference(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Say the same in one call of torch, bits as they come."""
    return functional.linear(x, weight, bias)


def _product(x: Tensor, weight: Tensor, bias: Tensor | None, *, is_packed: bool) -> Tensor:
    if not is_packed:
        return functional.linear(x, weight, bias)
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product


def _has_onednn() -> bool:
    """Whether torch has it, on the kind of processor where its products were measured."""
    available: bool = torch._C._has_mkldnn
    return available and platform.machine().lower() in ("x86_64", "amd64")


def _onednn_dtypes() -> set[torch.dtype]:
    dtypes = {torch.float32}
    if torch.ops.mkldnn._is_mkldnn_bf16_supported():
        dtypes.add(torch.bfloat16)
    if torch.ops.mkldnn._is_mkldnn_fp16_supported():
        dtypes.add(torch.float16)
    return dtypes


def _row_rule(weight: Tensor, *, is_packed: bool) -> RowRule:
    """Find the range of row counts, around the tile, whose products agree in their bits."""
    fewer, more = (_FEWER, _MORE) if weight.numel() < _LARGE else (_FEWER_LARGE, _MORE_LARGE)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(more[-1], weight.shape[1], generator=generator).to(weight.dtype)
    tiles = torch.split(functional.pad(x, (0, 0, 0, -len(x) % _TILE)), _TILE)
    expected = torch.cat([_product(tile, weight, None, is_packed=is_packed) for tile in tiles])

    def agrees(rows: int) -> bool:
        found = _product(x[:rows], weight, None, is_packed=is_packed)
        return torch.equal(found, expected[:rows])

    least = [_TILE, *takewhile(agrees, fewer)][-1]
    most = [_TILE, *takewhile(agrees, more)][-1]
    return RowRule(least, _UNLIMITED if most == more[-1] else most)
