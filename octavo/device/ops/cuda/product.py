"""Products of a weight on CUDA: the library's where its bits are the chain's, else our own.

M rows, N outputs, K inputs. ``linear.py`` gives a row the same bits for every M. The library's
product is faster from some tens of rows on; for which M it has the same bits is found at start,
once a shape: at every M a captured step can have, and at some larger ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from octavo.device.ops.cuda.gate import silu_and_mul
from octavo.device.ops.cuda.linear import Tile, gated_linear, linear

STEP_SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 128, 160, 192, 224, 256)
"""Numbers of rows that captured steps are padded to."""

_LEAST_LIBRARY_ROWS = 48
"""Below this the library is no faster."""
_LEAST_UNFUSED_ROWS = 128
"""Below this a fused gate is faster than the library and a kernel for the gate."""
_LARGER = (320, 512, 1000, 1024, 2048, 4096, 8192)
_MOST_ELEMENTS = 1 << 28
"""Largest product of the check."""


_ANY = 1 << 62
_TILES = (
    (16, 1024, Tile(16, 16, 256, 4, 4, is_wide=False)),
    (16, 4096, Tile(16, 32, 128, 4, 5, is_wide=False)),
    (16, _ANY, Tile(16, 64, 128, 4, 4, is_wide=False)),
    (128, 1024, Tile(32, 32, 128, 4, 4, is_wide=False)),
    (32, _ANY, Tile(32, 64, 128, 4, 4, is_wide=False)),
    (128, 4096, Tile(32, 64, 128, 4, 4, is_wide=False)),
    (128, 65536, Tile(64, 64, 128, 4, 4, is_wide=False)),
    (128, _ANY, Tile(64, 64, 64, 4, 6, is_wide=False)),
    (512, 1024, Tile(32, 64, 128, 4, 4, is_wide=False)),
    (512, 4096, Tile(64, 64, 64, 4, 6, is_wide=False)),
    (512, _ANY, Tile(128, 128, 64, 8, 4, is_wide=True)),
)
"""Most rows, most outputs, and the tile that was fastest on an H200; the first that fits."""
_LARGE_TILE = Tile(128, 256, 64, 8, 3, is_wide=True)


@dataclass(frozen=True, slots=True)
class LibraryRule:
    """For which M the library's product has the chain's bits."""

    sizes: frozenset[int]
    """Below ``least``: single values."""
    least: int
    """From here on, every M that was tried."""

    def admits(self, rows: int) -> bool:
        return rows >= self.least or rows in self.sizes


NEVER = LibraryRule(frozenset(), 1 << 62)


class Product:
    """Multiplies by one weight [N, K]."""

    def __init__(self, weight: Tensor, rule: LibraryRule) -> None:
        self._weight = weight
        self._rule = rule

    def linear(self, x: Tensor) -> Tensor:
        """Return ``x @ weight.T``."""
        rows = x.shape[0]
        if rows >= _LEAST_LIBRARY_ROWS and self._rule.admits(rows):
            return functional.linear(x, self._weight)
        return _chain(x, self._weight)

    def gated(self, x: Tensor) -> Tensor:
        """Return ``silu(gate) * up``, the halves of the product."""
        rows, width = x.shape[0], self._weight.shape[0] // 2
        if rows >= _LEAST_UNFUSED_ROWS and self._rule.admits(rows):
            return silu_and_mul(functional.linear(x, self._weight))
        out = torch.empty(rows, width, dtype=x.dtype, device=x.device)
        return gated_linear(_rows(x), self._weight, tile=_gated_tile(rows, width, x.dtype), out=out)


def find_rule(weight: Tensor) -> LibraryRule:
    """Compare the library with the chain for one shape of weight."""
    if weight.dtype == torch.float32:
        return NEVER
    outputs, inputs = weight.shape
    sizes = [size for size in STEP_SIZES if size >= _LEAST_LIBRARY_ROWS]
    sizes += [size for size in _LARGER if size * outputs <= _MOST_ELEMENTS]
    generator = torch.Generator(device=weight.device).manual_seed(0)
    x = torch.randn(sizes[-1], inputs, generator=generator, device=weight.device).to(weight.dtype)
    expected = _chain(x, weight)
    agreed = [torch.equal(functional.linear(x[:size], weight), expected[:size]) for size in sizes]
    least = NEVER.least
    for size, agrees in zip(reversed(sizes), reversed(agreed), strict=True):
        if not agrees:
            break
        least = size
    return LibraryRule(frozenset(s for s, a in zip(sizes, agreed, strict=True) if a), least)


def _chain(x: Tensor, weight: Tensor) -> Tensor:
    rows, outputs = x.shape[0], weight.shape[0]
    out = torch.empty(rows, outputs, dtype=x.dtype, device=x.device)
    return linear(_rows(x), weight, tile=_tile(rows, outputs, x.dtype), out=out, residual=None)


def _rows(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def _tile(rows: int, outputs: int, dtype: torch.dtype) -> Tile:
    """Choose by what was measured on an H200; the bits are those of any other tile."""
    if dtype == torch.float32:
        return Tile(16 if rows <= 16 else 32, 32, 32, 4, 2, is_wide=False)
    for most_rows, most_outputs, tile in _TILES:
        if rows <= most_rows and outputs <= most_outputs:
            return tile
    return _LARGE_TILE


def _gated_tile(rows: int, width: int, dtype: torch.dtype) -> Tile:
    if dtype == torch.float32:
        return Tile(16 if rows <= 16 else 32, 32, 32, 4, 2, is_wide=False)
    if rows <= 16:
        inner = (64, 4, 6) if width > 8192 else (128, 4, 4)
        return Tile(16, 64, *inner, is_wide=False)
    if rows <= 32 or (rows <= 64 and width <= 8192):
        return Tile(32, 64, 128, 4, 4, is_wide=False)
    if rows <= 256:
        return Tile(64, 128, 64, 4, 4, is_wide=True)
    return Tile(128, 128, 64, 8, 4, is_wide=True)
