"""The product of a packed weight: right, and with the same bits in any company."""

from __future__ import annotations

import pytest
import torch

from octavo.device.ops.matmul import PackedWeight, Packer, RowRule, linear, reference

SHAPES = [(960, 576), (576, 1536), (96, 64), (40, 24), (1152, 896)]
ROWS = [*range(1, 36), 47, 48, 63, 64, 65, 100, 127, 128, 129, 200]


def some(rows: int, columns: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_rows_bits_do_not_depend_on_how_many_rows_there_are(
    shape: tuple[int, int], dtype: torch.dtype
) -> None:
    packed = Packer().pack(some(*shape, seed=1).to(dtype))
    x = some(ROWS[-1], shape[1], seed=2).to(dtype)
    alone = torch.cat([linear(row, packed) for row in x.split(1)])

    for rows in ROWS:
        assert torch.equal(linear(x[:rows], packed), alone[:rows]), rows


def test_the_product_is_that_of_torch_with_and_without_bias() -> None:
    weight, x, bias = some(96, 64, 1), some(5, 64, 2), some(1, 96, 3)[0]
    packed = Packer().pack(weight)

    torch.testing.assert_close(linear(x, packed, bias), reference(x, weight, bias))
    torch.testing.assert_close(linear(x, packed), reference(x, weight))


@pytest.mark.parametrize("rule", [RowRule(16, 16), RowRule(2, 32), RowRule(1, 7)], ids=str)
def test_rows_are_padded_and_cut_to_what_the_rule_allows(rule: RowRule) -> None:
    weight, x = some(40, 24, 1), some(45, 24, 2)

    for rows in (0, 1, 2, 7, 16, 33, 45):
        found = linear(x[:rows], PackedWeight(weight, rule, is_packed=False))

        torch.testing.assert_close(found, reference(x[:rows], weight))
