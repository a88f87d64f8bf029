"""Row operations against their plain forms, and bits that do not depend on other rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from octavo.device.ops import rms_norm, rotate
from octavo.device.ops.batched_matmul import PIECE, weighted_sum
from octavo.device.ops.gate import gate_named
from octavo.kit.errors import Unsupported

ROWS = (2, 3, 7, 16, 17, 33, 65, 127, 300)


def some(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("size", [576, 4864, 100])
def test_a_gate_treats_each_row_alone(size: int) -> None:
    gate, x = gate_named("silu"), some(300, 2 * size)
    alone = torch.cat([gate(row.clone()) for row in x.split(1)])

    for rows in ROWS:
        assert torch.equal(gate(x[:rows].clone()), alone[:rows]), rows


@pytest.mark.parametrize(
    ("activation", "plain"),
    [
        ("silu", torch.nn.functional.silu),
        ("gelu", torch.nn.functional.gelu),
        ("gelu_pytorch_tanh", lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
    ],
)
def test_a_gate_multiplies_its_activation_with_the_other_half(activation, plain) -> None:
    x = some(5, 96)

    expected = plain(x[:, :48]) * x[:, 48:]

    torch.testing.assert_close(gate_named(activation)(x.clone()), expected)


def test_an_unknown_activation_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Unsupported, match=r"hidden_act='relu2'.*silu"):
        gate_named("relu2")


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("size", [576, 64, 100])
def test_a_norm_treats_each_row_alone_and_equals_its_formula(size: int) -> None:
    x, weight = some(300, size), some(1, size)[0]
    alone = torch.cat([rms_norm.rms_norm(row, weight, 1e-5) for row in x.split(1)])

    for rows in ROWS:
        assert torch.equal(rms_norm.rms_norm(x[:rows], weight, 1e-5), alone[:rows]), rows
    torch.testing.assert_close(alone, rms_norm.reference(x, weight, 1e-5))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("size", "half"), [(64, 32), (80, 20), (20, 10)])
def test_rotation_treats_each_token_alone_and_equals_its_formula(size: int, half: int) -> None:
    heads, angles = some(300, 12, size), some(300, 1, half)
    rest = torch.ones(300, 1, size - 2 * half)
    cos, sin = torch.cat((angles.cos(), angles.cos(), rest), dim=-1), angles.sin()
    rotated = rotate.rotate(heads, cos, sin)

    for rows in ROWS:
        assert torch.equal(rotate.rotate(heads[:rows], cos[:rows], sin[:rows]), rotated[:rows])
    torch.testing.assert_close(rotated, rotate.reference(heads, cos, sin))


@pytest.mark.parametrize("length", [3, PIECE, PIECE + 1, 3 * PIECE - 5])
def test_a_weighted_sum_ignores_trailing_zeros_to_the_bit(length: int) -> None:
    weights, values = torch.rand(4, 16, length), some(4, length, 64)
    padded = torch.nn.functional.pad(weights, (0, 300))
    dirty = torch.cat((values, some(4, 300, 64)), dim=1)

    total = weighted_sum(weights, values)

    assert torch.equal(weighted_sum(padded, dirty), total)
    torch.testing.assert_close(total, weights @ values, atol=1e-4, rtol=1e-4)  # sums of hundreds
