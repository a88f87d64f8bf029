"""Block types of GGUF files to plain numbers.

N blocks, each a few scales and packed integers; a value is a scale times an integer, plus an
offset in some types. Arithmetic is float32, each product and sum rounded on its own.

Source: block layouts of the GGUF specification and of ggml's ``ggml-common.h``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_PIECE = 32000
"""Values unpacked at a time: intermediates stay in cache, and torch stays in the caller's thread,
so that several weights are unpacked side by side."""


@dataclass(frozen=True, slots=True)
class BlockType:
    """How one type packs its values."""

    num_values: int
    """Values in a block."""
    num_bytes: int
    """Bytes of a block."""
    unpack: Callable[[Tensor], Tensor]
    """[N, num_bytes] uint8 to [N, num_values]"""


def known_types() -> list[str]:
    """Return the names of the types that can be read."""
    return list(_TYPES)


def dequantize(raw: Tensor, type_name: str, values: Tensor) -> None:
    """Fill ``values`` from ``raw``, in order, rounding to its dtype.

    Shapes:
        raw: [N * num_bytes] uint8
        values: [N * num_values], contiguous
    """
    kind = _TYPES[type_name]
    blocks = raw.view(-1, kind.num_bytes)
    lines = values.view(-1, kind.num_values)
    step = max(1, _PIECE // kind.num_values)
    for start in range(0, blocks.shape[0], step):
        lines[start : start + step] = kind.unpack(blocks[start : start + step])


def _as_type(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    def unpack(blocks: Tensor) -> Tensor:
        return blocks.view(dtype)

    return unpack


def _half(blocks: Tensor, start: int) -> Tensor:
    """Return the float16 at byte ``start`` of each block, [N, 1] float32."""
    return blocks[:, start : start + 2].contiguous().view(torch.float16).float()


def _bits(packed: Tensor, width: int, run: int) -> Tensor:
    """Split bytes into fields of ``width`` bits.

    Each run of ``run`` bytes yields first the lowest field of all its bytes, then the next one.

    Shapes:
        packed: [N, B] uint8
        returns: [N, B * 8 / width] uint8
    """
    shifts = torch.arange(0, 8, width, dtype=torch.uint8).view(1, 1, -1, 1)
    fields = packed.reshape(packed.shape[0], -1, 1, run) >> shifts
    return (fields & ((1 << width) - 1)).flatten(1)


def _bits_in_order(packed: Tensor) -> Tensor:
    """Split bytes into single bits, lowest first: [N, B] to [N, 8 * B]."""
    shifts = torch.arange(8, dtype=torch.uint8)
    return ((packed.unsqueeze(-1) >> shifts) & 1).flatten(1)


def _q4_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * (_bits(blocks[:, 2:], 4, 16).float() - 8)


def _q4_1(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * _bits(blocks[:, 4:], 4, 16).float() + _half(blocks, 2)


def _q5_0(blocks: Tensor) -> Tensor:
    high = _bits_in_order(blocks[:, 2:6]) << 4
    return _half(blocks, 0) * ((_bits(blocks[:, 6:], 4, 16) | high).float() - 16)


def _q5_1(blocks: Tensor) -> Tensor:
    high = _bits_in_order(blocks[:, 4:8]) << 4
    return _half(blocks, 0) * (_bits(blocks[:, 8:], 4, 16) | high).float() + _half(blocks, 2)


def _q8_0(blocks: Tensor) -> Tensor:
    return blocks[:, 2:].contiguous().view(torch.int8).float() * _half(blocks, 0)


def _in_groups(values: Tensor, scales: Tensor, offsets: Tensor | None = None) -> Tensor:
    """Scale equal groups of a block's values, and take their offset away.

    Shapes:
        values: [N, num_values]
        scales, offsets: [N, groups]
    """
    grouped = values.view(*scales.shape, -1).float() * scales.unsqueeze(-1)
    if offsets is not None:
        grouped -= offsets.unsqueeze(-1)
    return grouped.flatten(1)


def _q2_k(blocks: Tensor) -> Tensor:
    packed = blocks[:, :16]
    scales = _half(blocks, 80) * (packed & 15).float()
    offsets = _half(blocks, 82) * (packed >> 4).float()
    return _in_groups(_bits(blocks[:, 16:80], 2, 32), scales, offsets)


def _q3_k(blocks: Tensor) -> Tensor:
    low_scales = _bits(blocks[:, 96:104], 4, 8)
    high_scales = _bits(blocks[:, 104:108], 2, 4)
    scales = (low_scales | (high_scales << 4)).float() - 32
    low = _bits(blocks[:, 32:96], 2, 32).float()
    absent = 1 - _bits(blocks[:, :32], 1, 32).float()  # a set bit means: not lowered by 4
    return _in_groups(low - 4 * absent, _half(blocks, 108) * scales)


def _scales_and_offsets(packed: Tensor) -> tuple[Tensor, Tensor]:
    """Split 12 bytes into eight scales and eight offsets of 6 bits.

    The first four of each stand whole in the low bits of bytes 0-3 and 4-7; the last four have
    their low nibbles in bytes 8-11 and their high bits above the first four.
    """
    scales, offsets, rest = torch.split(packed, 4, dim=1)
    late_scales = (rest & 15) | ((scales >> 6) << 4)
    late_offsets = (rest >> 4) | ((offsets >> 6) << 4)
    return (
        torch.cat((scales & 63, late_scales), dim=1).float(),
        torch.cat((offsets & 63, late_offsets), dim=1).float(),
    )


def _q4_k(blocks: Tensor) -> Tensor:
    scales, offsets = _scales_and_offsets(blocks[:, 4:16])
    values = _bits(blocks[:, 16:], 4, 32)
    return _in_groups(values, _half(blocks, 0) * scales, _half(blocks, 2) * offsets)


def _q5_k(blocks: Tensor) -> Tensor:
    scales, offsets = _scales_and_offsets(blocks[:, 4:16])
    values = _bits(blocks[:, 48:], 4, 32) | (_bits(blocks[:, 16:48], 1, 32) << 4)
    return _in_groups(values, _half(blocks, 0) * scales, _half(blocks, 2) * offsets)


def _q6_k(blocks: Tensor) -> Tensor:
    scales = blocks[:, 192:208].contiguous().view(torch.int8).float()
    values = _bits(blocks[:, :128], 4, 64) | (_bits(blocks[:, 128:192], 2, 32) << 4)
    return _in_groups(values.float() - 32, _half(blocks, 208) * scales)


_TYPES = {
    "F32": BlockType(1, 4, _as_type(torch.float32)),
    "F16": BlockType(1, 2, _as_type(torch.float16)),
    "BF16": BlockType(1, 2, _as_type(torch.bfloat16)),
    "Q4_0": BlockType(32, 18, _q4_0),
    "Q4_1": BlockType(32, 20, _q4_1),
    "Q5_0": BlockType(32, 22, _q5_0),
    "Q5_1": BlockType(32, 24, _q5_1),
    "Q8_0": BlockType(32, 34, _q8_0),
    "Q2_K": BlockType(256, 84, _q2_k),
    "Q3_K": BlockType(256, 110, _q3_k),
    "Q4_K": BlockType(256, 144, _q4_k),
    "Q5_K": BlockType(256, 176, _q5_k),
    "Q6_K": BlockType(256, 210, _q6_k),
}
