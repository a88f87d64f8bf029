"""GGUF block types against the gguf package."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch

from octavo.device.ops.dequantize import dequantize, known_types

_HALF_SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0]}
_K_SCALES = {"Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def random_blocks(type_name: str, count: int, seed: int) -> np.ndarray:
    """Random bytes, with finite scales: every packed integer occurs, NaN has no equal bits."""
    rng = np.random.default_rng(seed)
    _, num_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[type_name]]
    blocks = rng.integers(0, 256, (count, num_bytes), dtype=np.uint8)
    for at in (_HALF_SCALES | _K_SCALES).get(type_name, []):
        scale = rng.normal(0, 0.1, (count, 1)).astype(np.float16)
        blocks[:, at : at + 2] = scale.view(np.uint8)
    return blocks


def unpacked(raw: torch.Tensor, type_name: str, dtype: torch.dtype) -> torch.Tensor:
    kind = gguf.GGMLQuantizationType[type_name]
    num_values, num_bytes = gguf.GGML_QUANT_SIZES[kind]
    values = torch.full((raw.numel() // num_bytes * num_values,), torch.nan, dtype=dtype)
    dequantize(raw, type_name, values)
    return values


@pytest.mark.parametrize("type_name", known_types())
def test_each_type_equals_the_gguf_package_bit_for_bit(type_name: str) -> None:
    blocks = random_blocks(type_name, count=3000, seed=1)
    kind = gguf.GGMLQuantizationType[type_name]
    if type_name in ("F32", "F16", "BF16"):
        dtype = {"F32": np.float32, "F16": np.float16, "BF16": np.float32}[type_name]
        blocks = np.random.default_rng(2).normal(size=3000).astype(dtype)
        if type_name == "BF16":
            blocks = gguf.quantize(blocks, kind)
        blocks = blocks.view(np.uint8).reshape(1, -1)
    raw = blocks.view({"F32": np.float32, "F16": np.float16}.get(type_name, np.uint8))
    expected = gguf.dequantize(raw, kind).astype(np.float32).reshape(-1)

    values = unpacked(torch.from_numpy(blocks.reshape(-1)), type_name, torch.float32)

    np.testing.assert_array_equal(values.numpy().view(np.uint32), expected.view(np.uint32))


def test_values_are_converted_to_the_dtype_of_the_model() -> None:
    blocks = torch.from_numpy(random_blocks("Q4_K", count=2, seed=3).reshape(-1))

    values = unpacked(blocks, "Q4_K", torch.bfloat16)

    assert torch.equal(values, unpacked(blocks, "Q4_K", torch.float32).bfloat16())
