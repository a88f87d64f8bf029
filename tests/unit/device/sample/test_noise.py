from __future__ import annotations

import math

import numpy as np
import torch

from octavo.device.sample.noise import noise_keys, noise_of, noise_of_all
from tests.unit.device.sample.oracle import noise


def keys(seeds: list[int], positions: list[int]) -> torch.Tensor:
    return torch.from_numpy(noise_keys(np.array(seeds, np.uint64), np.array(positions, np.int64)))


def test_noise_equals_the_plain_model() -> None:
    seeds, positions = [0, 1, (1 << 64) - 1, 77], [0, 5, 100_000, 3]
    ids = [0, 1, 2, 151_934]

    found = noise_of_all(keys(seeds, positions), 151_935)[:, ids]

    wants = [[noise(s, p, t) for t in ids] for s, p in zip(seeds, positions, strict=True)]
    # Both take one logarithm in float64 and round once.
    torch.testing.assert_close(found, torch.tensor(wants, dtype=torch.float32), atol=0, rtol=2e-7)


def test_noise_of_a_token_does_not_depend_on_the_tokens_beside_it() -> None:
    key = keys([9], [4])
    [whole] = noise_of_all(key, 5001)

    for ids in ([0], [3], [5000], list(range(17, 50)), [7, 3, 4999, 1]):
        some = torch.tensor(ids)
        assert torch.equal(noise_of(key.expand(len(ids)), some), whole[some])
    assert torch.equal(noise_of_all(key, 333)[0], whole[:333])


def test_noise_has_the_moments_of_an_exponential_distribution() -> None:
    sample = noise_of_all(keys(list(range(100)), [7] * 100), 10_000).double()

    # 1e6 numbers, five standard errors.
    assert abs(float(sample.mean()) - 1) < 5e-3
    assert abs(float(sample.var()) - 1) < 5 * math.sqrt(8 / 1e6)
    assert float(sample.min()) > 0


def test_neighbouring_seeds_positions_and_tokens_are_not_correlated() -> None:
    count = 40_000
    [base] = noise_of_all(keys([5], [10]), count)
    others = {
        "seed": noise_of_all(keys([6], [10]), count)[0],
        "position": noise_of_all(keys([5], [11]), count)[0],
        "token": noise_of_all(keys([5], [10]), count + 1)[0, 1:],
        "pair": noise_of_all(keys([5], [10]), count + 2)[0, 2:],
        "swapped": noise_of_all(keys([10], [5]), count)[0],
    }

    for name, other in others.items():
        correlation = float(torch.corrcoef(torch.stack((base, other)))[0, 1])
        assert abs(correlation) < 5 / math.sqrt(count), name
