"""What a request may say, and what the engine is told."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.api.frontend.input_processor import InputProcessor, PreparedRequest, derive_seed
from octavo.api.frontend.params import SamplingParams
from octavo.api.frontend.prompts import Prompt, TextPrompt, TokensPrompt
from octavo.api.text.threads import TextThreads
from octavo.config.octavo import OctavoConfig
from octavo.contracts.sampling import Penalties
from octavo.kit.errors import Overloaded, PromptTooLong, RequestRefused
from octavo.testing.fake_tokenizer import BOS_ID, EOS_ID, FakeTokenizer
from tests.unit.api.frontend.support import CONFIG, config_with

TOKENIZER = FakeTokenizer()


def prepare(
    prompt: Prompt, params: SamplingParams | None = None, config: OctavoConfig = CONFIG
) -> PreparedRequest:
    threads = TextThreads()
    try:
        inputs = InputProcessor(config, TOKENIZER, threads)
        inputs.check(params or SamplingParams(), request_id="a", priority=0, cache_salt="")
        return asyncio.run(inputs.prepare(prompt, params or SamplingParams()))
    finally:
        threads.close()


NAN, INF = math.nan, math.inf
OUT_OF_BOUNDS: list[tuple[str, Any]] = [
    ("n", 0), ("n", 129), ("n", 1.5), ("n", True),
    ("max_tokens", 0), ("max_tokens", -1), ("max_tokens", 2**31),
    ("min_tokens", -1), ("min_tokens", 17),
    ("temperature", -0.1), ("temperature", NAN), ("temperature", INF), ("temperature", 101),
    ("temperature", "hot"), ("temperature", True),
    ("top_p", 0), ("top_p", 1.1), ("top_p", NAN), ("top_p", -1),
    ("top_k", -2), ("top_k", 1.5), ("top_k", 2**31),
    ("min_p", -0.1), ("min_p", 1.1), ("min_p", NAN),
    ("repetition_penalty", 0), ("repetition_penalty", -1), ("repetition_penalty", INF),
    ("presence_penalty", 2.1), ("presence_penalty", NAN),
    ("frequency_penalty", -2.1), ("frequency_penalty", INF),
    ("seed", 2**63), ("seed", -(2**63) - 1), ("seed", 1.0),
    ("logprobs", -1), ("logprobs", 21), ("prompt_logprobs", 21), ("prompt_logprobs", -1),
    ("logit_bias", {-1: 1.0}), ("logit_bias", {262: 1.0}), ("logit_bias", {1: 101}),
    ("logit_bias", {1: NAN}), ("logit_bias", dict.fromkeys(range(5000), 0.0)),
    ("stop", ("",)), ("stop", ("x" * 513,)), ("stop", ("x",) * 33),
    ("stop_token_ids", (262,)), ("stop_token_ids", (-1,)), ("stop_token_ids", (1,) * 257),
    ("allowed_token_ids", ()), ("allowed_token_ids", (262,)), ("allowed_token_ids", (2**70,)),
    ("bad_words", ("",)), ("bad_words", ("x" * 257,)), ("bad_words", ("x",) * 257),
    ("truncate_prompt_tokens", 0), ("truncate_prompt_tokens", -2),
    ("truncate_prompt_tokens", 129),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), OUT_OF_BOUNDS)
def test_values_out_of_bounds_are_refused_by_name_value_and_bound(field: str, value: Any) -> None:
    with pytest.raises(RequestRefused) as caught:
        prepare("Hi", SamplingParams(**{field: value}))

    assert caught.value.status == 400
    assert caught.value.param == field
    assert caught.value.message.startswith(field)
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 128), ("temperature", 0), ("temperature", 100), ("top_p", 1e-9), ("top_p", 1),
        ("top_k", -1), ("top_k", 0), ("top_k", 10**9), ("min_p", 0), ("min_p", 1),
        ("repetition_penalty", 0.01), ("presence_penalty", -2), ("frequency_penalty", 2),
        ("seed", -(2**63)), ("seed", 2**63 - 1), ("logprobs", 0), ("logprobs", 20),
        ("logit_bias", {}), ("logit_bias", {0: -100, 261: 100}), ("stop", ("x" * 512,) * 32),
        ("allowed_token_ids", (0, 261)), ("stop_token_ids", (261,)), ("bad_words", ("x",)),
        ("truncate_prompt_tokens", -1), ("truncate_prompt_tokens", 100), ("max_tokens", None),
    ],
)  # fmt: skip
def test_values_at_their_bounds_are_taken(field: str, value: Any) -> None:
    prepared = prepare("Hi", SamplingParams(**{field: value}))

    assert prepared.prompt_token_ids == [BOS_ID, *b"Hi"]


def test_neutral_parameters_are_absent_from_what_the_engine_gets() -> None:
    sampling = prepare("Hi", SamplingParams(top_k=-1, temperature=1.0, logit_bias={})).sampling

    assert sampling.top_k == 0
    assert sampling.penalties is None
    assert sampling.logit_bias is None
    assert sampling.allowed_token_ids is None
    assert sampling.bad_words_token_ids is None
    assert sampling.logprobs is None


def test_the_models_defaults_fill_in_what_the_user_left_open() -> None:
    defaults = (("temperature", 0.6), ("top_p", 0.9), ("top_k", 50), ("repetition_penalty", 1.1))
    config = config_with(default_sampling=defaults)

    open_ = prepare("Hi", SamplingParams(), config).sampling
    said = prepare(
        "Hi",
        SamplingParams(temperature=0, top_p=1.0, top_k=0, repetition_penalty=1.0),
        config,
    ).sampling

    assert (open_.temperature, open_.top_p, open_.top_k) == (0.6, 0.9, 50)
    assert open_.penalties == Penalties(repetition=1.1)
    assert (said.temperature, said.top_p, said.top_k, said.penalties) == (0, 1.0, 0, None)


def test_a_tiny_temperature_is_greedy() -> None:
    assert prepare("Hi", SamplingParams(temperature=1e-6)).sampling.temperature == 0
    assert prepare("Hi", SamplingParams(temperature=1e-4)).sampling.temperature == 1e-4


def test_ends_of_text_stop_unless_they_are_ignored() -> None:
    plain = prepare("Hi", SamplingParams(stop_token_ids=(65,))).sampling
    ignoring = prepare("Hi", SamplingParams(stop_token_ids=(65, EOS_ID), ignore_eos=True)).sampling

    assert (plain.stop_token_ids, plain.eos_token_ids) == ([65, EOS_ID], [EOS_ID])
    assert (ignoring.stop_token_ids, ignoring.eos_token_ids) == ([65, EOS_ID], [])


def test_bad_words_are_spelled_at_the_start_and_after_a_space() -> None:
    sampling = prepare("Hi", SamplingParams(bad_words=("ab", " c"))).sampling

    assert sampling.bad_words_token_ids == [list(b"ab"), list(b" ab"), list(b" c")]


def test_no_limit_of_tokens_means_the_rest_of_the_context() -> None:
    assert prepare([1] * 100, SamplingParams(max_tokens=None)).sampling.max_tokens == 28
    assert prepare([1] * 127, SamplingParams(max_tokens=None)).sampling.max_tokens == 1


@pytest.mark.parametrize("length", [128, 129, 1000])
def test_a_prompt_that_leaves_no_room_is_refused(length: int) -> None:
    with pytest.raises(PromptTooLong, match=f"prompt has {length} tokens"):
        prepare([1] * length, SamplingParams(max_tokens=None))


def test_prompt_and_answer_have_to_fit_together() -> None:
    assert prepare([1] * 112, SamplingParams(max_tokens=16)).sampling.max_tokens == 16
    with pytest.raises(PromptTooLong, match="Shorten the prompt by 1 token or") as caught:
        prepare(TokensPrompt(token_ids=[1] * 113, param="messages"), SamplingParams(max_tokens=16))
    assert caught.value.param == "messages"
    assert caught.value.code == "context_length_exceeded"


def test_more_tokens_than_the_context_holds_are_refused_before_the_prompt_is_read() -> None:
    with pytest.raises(RequestRefused, match=r"model's context \(128\)") as caught:
        prepare("\ud800", SamplingParams(max_tokens=128))
    assert caught.value.param == "max_tokens"


@pytest.mark.parametrize("prompt", [[], TextPrompt(text="", add_special_tokens=False)])
def test_an_empty_prompt_is_refused(prompt: Prompt) -> None:
    with pytest.raises(RequestRefused, match="prompt is empty"):
        prepare(prompt)


def test_an_empty_text_is_the_begin_of_text_where_there_is_one() -> None:
    assert prepare("").prompt_token_ids == [BOS_ID]


@pytest.mark.parametrize("token_id", [-1, 262, 2**63, 2**80, True, 1.0, "1"])
def test_token_ids_outside_the_vocabulary_are_refused_by_their_place(token_id: Any) -> None:
    with pytest.raises(RequestRefused, match=r"^prompt\[2\]=") as caught:
        prepare([1, 2, token_id])
    assert caught.value.param == "prompt"


def test_a_text_that_can_never_fit_is_refused_without_reading_it() -> None:
    with pytest.raises(RequestRefused, match="characters") as caught:
        prepare(TextPrompt(text="\ud800" * 10_000, param="messages"))
    assert caught.value.param == "messages"


def test_half_of_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(RequestRefused, match="character 1"):
        prepare("a\udc00")


def test_truncation_keeps_the_end_of_the_prompt() -> None:
    last = prepare("abcdef", SamplingParams(truncate_prompt_tokens=3)).prompt_token_ids
    fits = prepare(
        list(range(100)) * 3, SamplingParams(truncate_prompt_tokens=-1, max_tokens=28)
    ).prompt_token_ids

    assert last == list(b"def")
    assert fits == list(range(100))


@given(num_tokens=st.integers(1, 300), max_tokens=st.integers(1, 127), keep=st.integers(-1, 128))
@settings(max_examples=100, deadline=None)
def test_what_is_accepted_fits_the_context(num_tokens: int, max_tokens: int, keep: int) -> None:
    params = SamplingParams(max_tokens=max_tokens, truncate_prompt_tokens=keep or None)
    token_ids = [number % 256 for number in range(num_tokens)]
    kept = min(num_tokens, {-1: 128 - max_tokens, 0: num_tokens}.get(keep, keep))

    try:
        prepared = prepare(token_ids, params)
    except PromptTooLong:
        assert kept + max_tokens > 128
    else:
        assert prepared.prompt_token_ids == token_ids[num_tokens - kept :]
        assert kept + prepared.sampling.max_tokens <= 128


def test_seeds_of_unseeded_requests_differ_and_repeat_from_run_to_run() -> None:
    def seeds(seed: int) -> list[int]:
        config = config_with(seed=seed)
        inputs = InputProcessor(config, TOKENIZER, TextThreads())
        return [asyncio.run(inputs.prepare([1], SamplingParams())).sampling.seed for _ in range(50)]

    assert len(set(seeds(0))) == 50
    assert seeds(0) == seeds(0)
    assert not set(seeds(0)) & set(seeds(1))


def test_the_first_of_n_answers_is_the_only_one_of_a_single_request() -> None:
    one = prepare("Hi", SamplingParams(seed=7, prompt_logprobs=1))
    three = prepare("Hi", SamplingParams(seed=7, n=3, prompt_logprobs=1))

    assert three.for_answer(0) == one.sampling
    assert three.for_answer(2).seed == derive_seed(7, 2)
    assert three.for_answer(2).prompt_logprobs is None
    assert replace_seed(three.for_answer(1)) == replace_seed(three.for_answer(2))


def replace_seed(sampling: Any) -> Any:
    return type(sampling)(
        **{name: getattr(sampling, name) for name in sampling.__struct_fields__} | {"seed": 0}
    )


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 127))
@settings(max_examples=100, deadline=None)
def test_seeds_fit_the_device(seed: int, index: int) -> None:
    assert 0 <= derive_seed(seed, index) < 2**63
    assert 0 <= prepare([1], SamplingParams(seed=seed)).sampling.seed < 2**63


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("request_id", ""),
        ("request_id", "x" * 257),
        ("priority", 2**31),
        ("cache_salt", "x" * 257),
    ],
)
def test_what_stands_beside_the_parameters_is_bounded_too(field: str, value: Any) -> None:
    inputs = InputProcessor(CONFIG, TOKENIZER, TextThreads())
    beside: dict[str, Any] = {"request_id": "a", "priority": 0, "cache_salt": ""} | {field: value}

    with pytest.raises(RequestRefused) as caught:
        inputs.check(SamplingParams(), **beside)
    assert caught.value.param == field


def test_the_line_before_the_threads_is_bounded() -> None:
    async def scenario() -> None:
        threads = TextThreads(num_threads=1, max_waiting=2)
        release = asyncio.Event()
        loop = asyncio.get_running_loop()

        def wait() -> None:
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result(5)

        waiting = [asyncio.create_task(threads.run(wait)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await threads.run(lambda: None)
        release.set()
        await asyncio.gather(*waiting)
        await threads.run(lambda: None)
        threads.close()

    asyncio.run(scenario())


def test_the_models_context_is_that_of_the_configuration() -> None:
    config = replace(CONFIG, model=replace(CONFIG.model, max_model_len=8))

    with pytest.raises(PromptTooLong, match="context holds 8"):
        prepare("12345678", SamplingParams(max_tokens=1), config)


def test_bounds_are_written_out() -> None:
    with pytest.raises(RequestRefused, match="must be an integer from 1 to 2147483647"):
        prepare("a", SamplingParams(max_tokens=0))
