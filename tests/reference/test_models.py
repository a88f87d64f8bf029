"""Tiny models against transformers, driven by hand: chunks, blocks and mixed batches."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
import transformers
from torch import Tensor

from octavo.device.models.base import CausalModel
from tests.reference.driver import Driver, Text, compute, continue_greedily
from tests.reference.tiny import TINY, VOCAB

TOLERANCE = 1e-4
"""Two float32 implementations that add in different orders."""

Pairs = Callable[[str], tuple[CausalModel, transformers.PreTrainedModel]]


def random_ids(length: int, seed: int) -> list[int]:
    return random.Random(seed).choices(range(2, VOCAB), k=length)


@torch.no_grad()
def expected_logprobs(model: transformers.PreTrainedModel, token_ids: list[int]) -> Tensor:
    return model(torch.tensor([token_ids])).logits[0].log_softmax(-1)


def logprobs(text: Text) -> Tensor:
    return torch.stack(text.logits).log_softmax(-1)


@pytest.mark.parametrize("block_size", [8, 16, 32])
@pytest.mark.parametrize("chunk", [1, 7, 64])
@pytest.mark.parametrize("name", TINY)
def test_log_probabilities_equal_transformers(
    name: str, chunk: int, block_size: int, tiny_pair: Pairs
) -> None:
    ours, theirs = tiny_pair(name)
    texts = [Text(random_ids(length, seed=length)) for length in (90, 5, 41)]

    compute(Driver(ours, block_size=block_size), texts, chunk=chunk)

    for text in texts:
        expected = expected_logprobs(theirs, text.token_ids)
        torch.testing.assert_close(logprobs(text), expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", TINY)
def test_greedy_tokens_equal_transformers(name: str, tiny_pair: Pairs) -> None:
    ours, theirs = tiny_pair(name)
    texts = [Text(random_ids(length, seed=length)) for length in (30, 3)]
    prompts = [list(text.token_ids) for text in texts]
    driver = Driver(ours, block_size=16)

    compute(driver, texts, chunk=64)
    continue_greedily(driver, texts, 64)

    for text, prompt in zip(texts, prompts, strict=True):
        answer = theirs.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=64,
            min_new_tokens=64,
            do_sample=False,
            eos_token_id=None,
        )[0].tolist()
        assert text.token_ids == answer
        assert len(set(answer[len(prompt) :])) > 10  # the model does not say one thing


@pytest.mark.parametrize("name", TINY)
def test_bits_do_not_depend_on_company_or_chunks(name: str, tiny_pair: Pairs) -> None:
    ours, _ = tiny_pair(name)
    alone = Text(random_ids(100, seed=1))
    compute(Driver(ours, block_size=16), [alone], chunk=100)
    crowd = [Text(random_ids(length, seed=length)) for length in range(20, 120, 3)]
    crowd.insert(17, Text(list(alone.token_ids)))

    compute(Driver(ours, block_size=16), crowd, chunk=7)

    assert torch.equal(torch.stack(crowd[17].logits), torch.stack(alone.logits))
