"""Rotary angles against transformers, for every kind of scaling."""

from __future__ import annotations

import pytest
import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from octavo.config.model import RopeConfig
from octavo.device.layers.rotary import rope_frequencies
from octavo.kit.errors import Unsupported

SIZE = 64
TRAINED = 256
SHORT = [1.0 + index / 50 for index in range(SIZE // 2)]
LONG = [1.5 + index / 9 for index in range(SIZE // 2)]
KINDS = {
    "linear": {"factor": 3.0},
    "dynamic": {"factor": 2.0},
    "yarn": {"factor": 4.0, "beta_fast": 20.0, "beta_slow": 2.0},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "longrope": {"factor": 4.0, "short_factor": SHORT, "long_factor": LONG},
}


def theirs(kind: str, length: int) -> tuple[torch.Tensor, float]:
    config = transformers.LlamaConfig(
        hidden_size=SIZE,
        num_attention_heads=1,
        max_position_embeddings=TRAINED if kind == "dynamic" else TRAINED * 4,
        rope_parameters={
            "rope_type": kind,
            "rope_theta": 5000.0,
            "original_max_position_embeddings": TRAINED,
            **KINDS[kind],
        },
    )
    return ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"), seq_len=length)


@pytest.mark.parametrize("length", [200, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_angles_equal_transformers(kind: str, length: int) -> None:
    facts = {
        name: v for name, v in KINDS[kind].items() if name not in ("short_factor", "long_factor")
    }
    factors: tuple[float, ...] = ()
    if kind == "longrope":
        factors = tuple(LONG if length > TRAINED else SHORT)
    rope = RopeConfig(
        theta=5000.0,
        rotary_size=SIZE,
        kind=kind,
        original_max_position=TRAINED,
        inverse_factors=factors,
        **facts,
    )

    frequencies, scale = rope_frequencies(rope, length)

    expected, expected_scale = theirs(kind, length)
    torch.testing.assert_close(frequencies, expected)
    assert scale == pytest.approx(expected_scale)


def test_plain_angles_fall_from_one_to_the_base() -> None:
    frequencies, scale = rope_frequencies(RopeConfig(theta=100.0, rotary_size=4), 10)

    assert frequencies.tolist() == pytest.approx([1.0, 0.1])
    assert scale == 1.0


def test_divisors_of_a_gguf_file_divide_the_angles() -> None:
    rope = RopeConfig(theta=100.0, rotary_size=4, inverse_factors=(1.0, 4.0))

    assert rope_frequencies(rope, 10)[0].tolist() == pytest.approx([1.0, 0.025])


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(Unsupported, match="rope kind 'spiral'"):
        rope_frequencies(RopeConfig(theta=1.0, rotary_size=4, kind="spiral"), 10)
