from __future__ import annotations

import pytest
import torch

from octavo.device.ops import row_argmax, row_head, token_bits, true_places


def values(rows: int, vocab: int) -> torch.Tensor:
    drawn = torch.randn(rows, vocab, generator=torch.Generator().manual_seed(vocab))
    return (drawn * 4).round() / 4  # many equal values


@pytest.mark.parametrize("vocab", [1, 2, 33, 5000])
def test_row_argmax_equals_its_reference(vocab: int) -> None:
    x = values(5, vocab)
    x[2, vocab // 2] = torch.nan
    x[3] = -torch.inf

    assert torch.equal(row_argmax.row_argmax(x), row_argmax.reference(x))


@pytest.mark.parametrize("vocab", [1, 2, 33, 5000])
def test_row_head_equals_its_reference(vocab: int) -> None:
    x = values(5, vocab)

    for count in {1, (vocab + 1) // 2, vocab}:
        assert torch.equal(row_head.row_head(x, count), row_head.reference(x, count))


def test_true_places_equals_its_reference() -> None:
    for mask in (values(3, 77) > 0, values(3, 77) > 100, values(1, 1) < 100):
        assert torch.equal(true_places.true_places(mask), true_places.reference(mask))


def test_token_bits_equals_its_reference() -> None:
    keys = torch.tensor([0, -1, 1 << 62, 12345])

    for numbers in (torch.arange(1001), torch.tensor([7]), torch.tensor([], dtype=torch.int64)):
        found = token_bits.token_bits(keys[:, None], numbers)
        assert torch.equal(found, token_bits.reference(keys[:, None], numbers))
