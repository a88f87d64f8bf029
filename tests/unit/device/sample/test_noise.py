from __future__ import annotations

import math

import numpy as np
import torch

from octavo.device.sample.noise import gumbel, noise_keys
from tests.unit.device.sample.oracle import noise


def keys(seeds: list[int], positions: list[int]) -> torch.Tensor:
    return torch.from_numpy(noise_keys(np.array(seeds, np.uint64), np.array(positions, np.int64)))


def test_noise_equals_the_plain_model() -> None:
    seeds, positions = [0, 1, (1 << 64) - 1, 77], [0, 5, 100_000, 3]
    ids = torch.tensor([0, 1, 2, 151_935])

    found = gumbel(keys(seeds, positions)[:, None], ids)

    wants = [[noise(s, p, int(t)) for t in ids] for s, p in zip(seeds, positions, strict=True)]
    # Both take two logarithms in float64 and round once.
    torch.testing.assert_close(found, torch.tensor(wants, dtype=torch.float32), atol=0, rtol=3e-7)


def test_noise_of_a_token_does_not_depend_on_the_tokens_beside_it() -> None:
    ids, key = torch.arange(5000), keys([9], [4])
    whole = gumbel(key, ids)

    for begin, end in ((0, 1), (3, 4), (17, 50), (4999, 5000), (1001, 3333)):
        assert torch.equal(gumbel(key, ids[begin:end].clone()), whole[begin:end])


def test_noise_has_the_moments_of_a_gumbel_distribution() -> None:
    sample = gumbel(keys(list(range(100)), [7] * 100)[:, None], torch.arange(10_000)).double()

    # 1e6 numbers: mean Euler's constant, variance pi^2 / 6; five standard errors.
    assert abs(float(sample.mean()) - 0.5772156649) < 5 * math.sqrt(math.pi**2 / 6 / 1e6)
    assert abs(float(sample.var()) - math.pi**2 / 6) < 0.02


def test_neighbouring_seeds_positions_and_tokens_are_not_correlated() -> None:
    count = 40_000
    ids = torch.arange(count)
    base = gumbel(keys([5], [10]), ids)
    others = {
        "seed": gumbel(keys([6], [10]), ids),
        "position": gumbel(keys([5], [11]), ids),
        "token": gumbel(keys([5], [10]), ids + 1),
        "swapped": gumbel(keys([10], [5]), ids),
    }

    for name, other in others.items():
        correlation = float(torch.corrcoef(torch.stack((base, other)))[0, 1])
        assert abs(correlation) < 5 / math.sqrt(count), name
