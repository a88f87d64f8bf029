from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.contracts.runner import RowStatus
from octavo.contracts.sampling import Penalties, TokenSampling
from tests.unit.device.sample.oracle import expected
from tests.unit.device.sample.rows import Text, draw

VOCAB = 61


def logits_of(seed: int, rows: int, vocab: int = VOCAB) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, (rows, vocab)).astype(np.float32)


def greedy(**changes: object) -> TokenSampling:
    return TokenSampling(max_tokens=8, temperature=0.0, **changes)


def by_chance(**changes: object) -> TokenSampling:
    return TokenSampling(max_tokens=8, **changes)


def check(logits: np.ndarray, texts: list[Text], rows: list[int] | None = None) -> None:
    """Compare one drawn batch with the plain model, row by row."""
    drawn = draw(logits, texts, rows)
    wants = [
        expected(line, text.sampling, text.prompt, text.output)
        for line, text in zip(logits, texts, strict=True)
    ]
    for place, want in enumerate(wants):
        if want.token is None:
            assert drawn.status[place] == RowStatus.NOTHING_ALLOWED
        else:
            assert drawn.status[place] == RowStatus.OK
            assert int(drawn.token_ids[place]) == want.token, texts[place]
    reported = [
        place
        for place, (text, want) in enumerate(zip(texts, wants, strict=True))
        if text.sampling.logprobs is not None and want.token is not None
    ]
    if not reported:
        assert drawn.logprobs is None or len(drawn.logprobs.ranks) == 0
        return
    assert drawn.logprobs is not None
    assert drawn.logprob_places is not None
    assert drawn.logprob_places.tolist() == reported
    for line, place in enumerate(reported):
        want, most = wants[place], drawn.logprobs.token_ids.shape[1] - 1
        ids = drawn.logprobs.token_ids[line].tolist()
        assert ids == [want.token, *want.top[:most]]
        assert drawn.logprobs.ranks[line] == want.rank
        np.testing.assert_allclose(drawn.logprobs.values[line], want.logprobs[ids], atol=2e-5)


ALONE = {
    "greedy": greedy(),
    "plain": by_chance(),
    "hot": by_chance(temperature=2.0),
    "cold": by_chance(temperature=0.3),
    "coldest": by_chance(temperature=1e-30),
    "top_k": by_chance(top_k=5),
    "top_k 1": by_chance(top_k=1),
    "top_k of the vocabulary": by_chance(top_k=VOCAB),
    "top_k beyond the vocabulary": by_chance(top_k=10**9),
    "top_p": by_chance(top_p=0.8),
    "tiny top_p": by_chance(top_p=1e-12),
    "top_p almost 1": by_chance(top_p=0.999999),
    "min_p": by_chance(min_p=0.1),
    "min_p 1": by_chance(min_p=1.0),
    "all cuts": by_chance(top_k=10, top_p=0.9, min_p=0.02),
    "seed": by_chance(seed=123456789),
    "largest seed": by_chance(seed=(1 << 64) - 1),
    "negative seed": by_chance(seed=-5),
    "repetition": greedy(penalties=Penalties(repetition=1.7)),
    "repetition below 1": greedy(penalties=Penalties(repetition=0.5)),
    "presence": greedy(penalties=Penalties(presence=1.5)),
    "frequency": greedy(penalties=Penalties(frequency=0.7)),
    "negative penalties": greedy(penalties=Penalties(presence=-1.0, frequency=-1.0)),
    "all penalties": by_chance(penalties=Penalties(1.2, 0.5, 0.3)),
    "bias": greedy(logit_bias={3: 5.5, 9: -100.0, 60: 2.0}),
    "bias beyond the vocabulary": greedy(logit_bias={1000: 100.0, -1: 100.0}),
    "endless bias": greedy(logit_bias=dict.fromkeys(range(59), -math.inf)),
    "allowed": by_chance(allowed_token_ids=[4, 8, 15, 16, 23, 42]),
    "allowed with bias": greedy(allowed_token_ids=[1, 2, 3], logit_bias={2: 50.0, 7: 100.0}),
    "one allowed": by_chance(allowed_token_ids=[7], top_p=0.5),
    "none allowed": greedy(allowed_token_ids=[1000]),
    "allowed but biased away": by_chance(allowed_token_ids=[5], logit_bias={5: -math.inf}),
    "min_tokens": greedy(min_tokens=7, stop_token_ids=list(range(50))),
    "min_tokens reached": greedy(min_tokens=6, stop_token_ids=list(range(50))),
    "stop ids beyond the vocabulary": greedy(min_tokens=9, stop_token_ids=[5000, 3]),
    "bad word of one token": greedy(bad_words_token_ids=[[token] for token in range(40)]),
    "bad words": greedy(
        bad_words_token_ids=[[2, 9, token] for token in range(30)]
        + [[9, token] for token in (40, 50)]
    ),
    "bad words that match in part": greedy(
        bad_words_token_ids=[[9, 2, 3], [7, 2, 9, 4], [1, 5, 2, 4, 5, 5, 2, 9, 6]]
    ),
    "logprobs": greedy(logprobs=5),
    "logprobs of the sampled token": by_chance(logprobs=0),
    "logprobs of every token": by_chance(logprobs=VOCAB + 3),
    "logprobs are those of raw logits": by_chance(
        logprobs=3, penalties=Penalties(1.5), allowed_token_ids=[2, 5, 9], temperature=0.1
    ),
}


@pytest.mark.parametrize("name", ALONE)
def test_each_parameter_alone_does_what_its_rule_says(name: str) -> None:
    text = Text(ALONE[name], prompt=[1, 5, 5, 8], output=[2, 4, 5, 5, 2, 9])

    for seed in range(8):
        check(logits_of(seed, 1), [text])


def test_all_parameters_together_in_one_batch_do_what_their_rules_say() -> None:
    texts = [Text(sampling, [1, 5, 5, 8], [2, 4, 5, 5, 2, 9]) for sampling in ALONE.values()]
    rows = np.random.default_rng(0).permutation(len(texts)).tolist()

    for seed in range(8):
        check(logits_of(seed, len(texts)), texts, rows)


tokens = st.integers(0, VOCAB - 1)
some_tokens = st.lists(tokens, min_size=1, max_size=6)


@st.composite
def samplings(draw: st.DrawFn) -> TokenSampling:
    def maybe(strategy: st.SearchStrategy[object], neutral: object) -> object:
        return draw(strategy) if draw(st.booleans()) else neutral

    return TokenSampling(
        max_tokens=8,
        temperature=maybe(st.sampled_from([0.0, 0.01, 0.5, 1.5, 10.0]), 1.0),
        top_k=maybe(st.integers(0, VOCAB + 5), 0),
        top_p=maybe(st.floats(0.01, 1.0), 1.0),
        min_p=maybe(st.floats(0.0, 1.0), 0.0),
        seed=draw(st.integers(0, (1 << 64) - 1)),
        min_tokens=maybe(st.integers(0, 6), 0),
        stop_token_ids=maybe(some_tokens, []),
        penalties=maybe(
            st.builds(Penalties, st.floats(0.1, 2.0), st.floats(-2.0, 2.0), st.floats(-2.0, 2.0)),
            None,
        ),
        logit_bias=maybe(st.dictionaries(tokens, st.floats(-100, 100), max_size=4), None),
        allowed_token_ids=maybe(some_tokens, None),
        bad_words_token_ids=maybe(
            st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3), max_size=5), None
        ),
        logprobs=maybe(st.integers(0, 20), None),
    )


text_strategy = st.builds(
    Text,
    samplings(),
    st.lists(tokens, min_size=1, max_size=8),
    st.lists(st.integers(0, 5), max_size=8),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(text_strategy, min_size=1, max_size=6), st.integers(0, 1 << 30))
def test_any_mix_of_parameters_equals_the_plain_model(texts: list[Text], seed: int) -> None:
    check(logits_of(seed, len(texts)), texts)


@pytest.mark.parametrize("spread", [0.05, 1.0, 6.0])
@pytest.mark.parametrize("decimals", [1, 9])
def test_cuts_of_a_large_vocabulary_equal_the_plain_model(spread: float, decimals: int) -> None:
    cuts = [
        by_chance(seed=1, top_p=0.5),
        by_chance(seed=2, top_p=0.999),
        by_chance(seed=3, top_k=1024),
        by_chance(seed=4, top_k=1025),
        by_chance(seed=5, top_k=2000, top_p=0.9),
        by_chance(seed=6, top_k=1000, top_p=0.97),
        by_chance(seed=7, min_p=1e-4),
        by_chance(seed=8, min_p=0.3, top_p=0.8),
        by_chance(seed=9, min_p=1e-3, top_k=3000, top_p=0.7, temperature=0.5),
    ]
    logits = logits_of(4, len(cuts), 4099) / 3 * np.float32(spread)

    check(logits.round(decimals), [Text(cut) for cut in cuts])


@pytest.mark.parametrize("vocab", [VOCAB, 4099])
def test_a_row_gives_the_same_bits_alone_and_in_a_crowd(vocab: int) -> None:
    texts = [
        Text(sampling, [1, 5, 5, 8], [2, 4, 5, 5, 2, 9])
        for sampling in ALONE.values()
        if sampling.logprobs is None or sampling.logprobs < VOCAB
    ]
    logits = logits_of(3, len(texts), vocab)

    crowd = draw(logits, texts)

    assert crowd.logprobs is not None
    assert crowd.logprob_places is not None
    for place, text in enumerate(texts):
        alone = draw(logits[place : place + 1], [text])
        assert torch.equal(alone.token_ids[0], crowd.token_ids[place])
        if place in crowd.logprob_places:
            assert alone.logprobs is not None
            line = crowd.logprob_places.tolist().index(place)
            count = alone.logprobs.values.shape[1]
            assert alone.logprobs.values[0].tolist() == crowd.logprobs.values[line, :count].tolist()
            assert alone.logprobs.ranks[0] == crowd.logprobs.ranks[line]


def test_of_equal_logits_greedy_takes_the_lowest_id() -> None:
    logits = np.zeros((2, VOCAB), np.float32)
    logits[1, [17, 4, 40]] = 2.5

    assert draw(logits, [Text(greedy())] * 2).token_ids.tolist() == [0, 4]


def test_equal_logits_at_a_cut_are_kept_together() -> None:
    logits = np.full((1, VOCAB), -20.0, np.float32)
    logits[0, [3, 5, 7]] = 2.0

    for cut in (by_chance(top_k=1), by_chance(top_p=0.2), by_chance(min_p=1.0)):
        drawn = {
            int(
                draw(
                    logits,
                    [Text(by_chance(seed=seed, top_k=cut.top_k, top_p=cut.top_p, min_p=cut.min_p))],
                ).token_ids
            )
            for seed in range(60)
        }
        assert drawn == {3, 5, 7}


def test_equal_logprobs_are_listed_with_the_lower_id_first() -> None:
    logits = np.zeros((1, VOCAB), np.float32)
    logits[0, 30] = 1.0

    drawn = draw(logits, [Text(greedy(logprobs=4))])

    assert drawn.logprobs is not None
    assert drawn.logprobs.token_ids.tolist() == [[30, 30, 0, 1, 2]]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize(
    "sampling", [greedy(), by_chance(top_p=0.5), greedy(logprobs=2, min_tokens=3)]
)
def test_a_row_that_is_not_finite_ends_alone(bad: float, sampling: TokenSampling) -> None:
    logits = logits_of(1, 3)
    logits[1, 20] = bad
    texts = [Text(sampling)] * 3

    drawn = draw(logits, texts)

    assert drawn.status.tolist() == [RowStatus.OK, RowStatus.NOT_FINITE, RowStatus.OK]
    for place in (0, 2):
        alone = draw(logits[place : place + 1], [texts[place]])
        assert int(alone.token_ids[0]) == int(drawn.token_ids[place])


def test_logits_that_exclude_tokens_themselves_are_fine() -> None:
    logits = logits_of(1, 2)
    logits[:, ::2] = -math.inf

    drawn = draw(logits, [Text(greedy(logprobs=3)), Text(by_chance(top_p=0.9))])

    assert drawn.status.tolist() == [RowStatus.OK, RowStatus.OK]
    assert (drawn.token_ids % 2 == 1).all()


def test_a_row_where_nothing_is_allowed_ends_alone() -> None:
    texts = [Text(greedy()), Text(greedy(allowed_token_ids=[], logprobs=1)), Text(by_chance())]

    drawn = draw(logits_of(5, 3), texts)

    assert drawn.status.tolist() == [RowStatus.OK, RowStatus.NOTHING_ALLOWED, RowStatus.OK]
    assert drawn.logprob_places is not None
    assert drawn.logprob_places.tolist() == []


def test_tokens_follow_the_distribution() -> None:
    """Chi-square over 20,000 draws of one distribution, by seed; 5 sigma of 15 degrees."""
    chances = np.array([0.3, 0.2, 0.15, 0.1] + [0.25 / 12] * 12)
    count, batch = 20_000, 500
    logits = np.log(np.tile(chances, (batch, 1))).astype(np.float32)

    seen = np.zeros(16)
    for begin in range(0, count, batch):
        texts = [Text(by_chance(seed=begin + index)) for index in range(batch)]
        seen += np.bincount(draw(logits, texts).token_ids.numpy(), minlength=16)

    chi_square = ((seen - count * chances) ** 2 / (count * chances)).sum()
    assert chi_square < 15 + 5 * math.sqrt(30)
