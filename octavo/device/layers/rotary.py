"""Rotary position encodings and their scalings.

Source: Su et al. 2021 (RoPE); Peng et al. 2023 (YaRN, and NTK scaling in its section 3);
Ding et al. 2024 (LongRoPE); the Llama 3.1 release for ``llama3``.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from octavo.config.model import RopeConfig
from octavo.device.attention.prepare import Rotation
from octavo.device.layers.build import Build
from octavo.kit.errors import Unsupported


class RotaryEmbedding(nn.Module):
    """Table of the angles of every position."""

    def __init__(
        self, rope: RopeConfig, *, head_size: int, max_model_len: int, build: Build
    ) -> None:
        super().__init__()
        frequencies, scale = rope_frequencies(rope, max_model_len)
        angles = torch.outer(
            torch.arange(max_model_len, dtype=torch.float32, device="cpu"), frequencies
        )
        cos, sin = angles.cos() * scale, angles.sin() * scale  # [max_model_len, rotary_size / 2]
        rest = torch.ones(max_model_len, head_size - rope.rotary_size, device="cpu")
        device = torch.get_default_device()
        self.register_buffer(
            "_cos", torch.cat((cos, cos, rest), dim=1).to(device, build.dtype), persistent=False
        )
        self.register_buffer("_sin", sin.to(device, build.dtype), persistent=False)

    def forward(self, positions: Tensor) -> Rotation:
        """Gather the angles of [T] positions."""
        cos, sin = self._cos, self._sin
        assert isinstance(cos, Tensor)
        assert isinstance(sin, Tensor)
        return Rotation(
            cos.index_select(0, positions).unsqueeze(1), sin.index_select(0, positions).unsqueeze(1)
        )


def rope_frequencies(rope: RopeConfig, max_model_len: int) -> tuple[Tensor, float]:
    """Return the angle per position of each pair, and the factor on cosine and sine.

    ``dynamic`` and ``longrope`` depend on the length of a text; here they take the longest one
    that this start serves, so that a token's angles do not depend on when it is computed.

    Shapes:
        returns: [rotary_size / 2] float32
    Raises:
        Unsupported: the kind is not known.
    """
    match rope.kind:
        case "default":
            frequencies, scale = _plain(rope, rope.theta), 1.0
        case "linear":
            frequencies, scale = _plain(rope, rope.theta) / rope.factor, 1.0
        case "dynamic":
            frequencies, scale = _dynamic(rope, max_model_len), 1.0
        case "yarn":
            frequencies, scale = _yarn(rope), _yarn_scale(rope)
        case "longrope":
            frequencies, scale = _plain(rope, rope.theta), _longrope_scale(rope)
        case "llama3":
            frequencies, scale = _llama3(rope), 1.0
        case _:
            raise Unsupported(
                f"rope kind {rope.kind!r}: this model's position encoding is not among "
                "default, linear, dynamic, yarn, longrope, llama3"
            )
    if rope.inverse_factors:
        frequencies = frequencies / torch.tensor(rope.inverse_factors, device="cpu")
    return frequencies, scale


def _plain(rope: RopeConfig, theta: float) -> Tensor:
    exponents = torch.arange(0, rope.rotary_size, 2, dtype=torch.float32, device="cpu")
    return 1.0 / theta ** (exponents / rope.rotary_size)


def _dynamic(rope: RopeConfig, max_model_len: int) -> Tensor:
    """Raise the base so that the longest text fits into the trained range of angles."""
    trained = rope.original_max_position
    longest = max(max_model_len, trained)
    stretch = rope.factor * longest / trained - (rope.factor - 1)
    size = rope.rotary_size
    return _plain(rope, rope.theta * stretch ** (size / (size - 2)))


def _yarn(rope: RopeConfig) -> Tensor:
    """Keep fast dimensions, interpolate slow ones, and blend between."""
    size, trained = rope.rotary_size, rope.original_max_position

    def dimension_of(turns: float) -> float:
        """Which pair turns so often over the trained context."""
        return size * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(rope.theta))

    low = max(math.floor(dimension_of(rope.beta_fast)), 0)
    high = min(math.ceil(dimension_of(rope.beta_slow)), size - 1)
    width = max(high - low, 0.001)
    pairs = torch.arange(size // 2, dtype=torch.float32, device="cpu")
    slow = ((pairs - low) / width).clamp(0, 1)
    plain = _plain(rope, rope.theta)
    return plain / rope.factor * slow + plain * (1 - slow)


def _yarn_scale(rope: RopeConfig) -> float:
    if rope.attention_factor is not None:
        return rope.attention_factor
    return 1.0 if rope.factor <= 1 else 0.1 * math.log(rope.factor) + 1.0


def _longrope_scale(rope: RopeConfig) -> float:
    if rope.attention_factor is not None:
        return rope.attention_factor
    if rope.factor <= 1:
        return 1.0
    return math.sqrt(1 + math.log(rope.factor) / math.log(rope.original_max_position))


def _llama3(rope: RopeConfig) -> Tensor:
    """Divide slow frequencies by the factor, keep fast ones, and blend between."""
    plain = _plain(rope, rope.theta)
    turns = rope.original_max_position * plain / (2 * math.pi)
    fast = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    fast = fast.clamp(0, 1)
    return (1 - fast) * plain / rope.factor + fast * plain
