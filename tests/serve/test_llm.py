"""``LLM``: a tiny model in this process."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo import LLM, SamplingParams
from octavo.api.frontend.prompts import TokensPrompt
from octavo.config.args import EngineArgs
from octavo.entrypoints.llm import engine_args
from octavo.kit.errors import ConfigError, RequestRefused
from octavo.launch.inprocess import Closed

GREEDY = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)


@pytest.fixture(scope="module")
def llm(tiny_model: str) -> Iterator[LLM]:
    with LLM(tiny_model, threads=1, max_num_seqs=4, max_waiting_requests=4) as llm:
        yield llm


def texts(llm: LLM, prompts: object, params: object = GREEDY) -> list[str]:
    outputs = llm.generate(prompts, params, use_tqdm=False)
    return [output.outputs[0].text for output in outputs]


def test_every_shape_of_a_prompt_is_the_same_prompt(llm: LLM) -> None:
    token_ids = llm.encode("the sea")
    shapes = ["the sea", token_ids, {"prompt": "the sea"}, {"prompt_token_ids": token_ids}]

    [expected] = texts(llm, "the sea")

    assert texts(llm, shapes) == [expected] * 4
    assert texts(llm, token_ids) == [expected]
    assert texts(llm, {"prompt": "the sea"}) == [expected]


def test_results_are_in_order_and_beyond_the_bound_of_the_queue(llm: LLM) -> None:
    prompts = [f"number {index} " * (1 + index % 5) for index in range(60)]

    together = texts(llm, prompts)

    assert together[:10] == [texts(llm, prompt)[0] for prompt in prompts[:10]]
    assert len(set(together)) > 10


def test_each_prompt_may_have_its_own_parameters(llm: LLM) -> None:
    params = [SamplingParams(max_tokens=count, ignore_eos=True) for count in (1, 2, 3)]

    outputs = llm.generate(["a", "b", "c"], params, use_tqdm=False)

    assert [len(output.outputs[0].token_ids) for output in outputs] == [1, 2, 3]


def test_a_wrong_number_of_parameters_is_refused(llm: LLM) -> None:
    with pytest.raises(RequestRefused, match="2 items for 3 prompts"):
        llm.generate(["a", "b", "c"], [GREEDY, GREEDY])


def test_no_prompts_give_no_results(llm: LLM) -> None:
    assert llm.generate([], GREEDY, use_tqdm=False) == []


@pytest.mark.parametrize("prompt", [5, [None], [{"text": "x"}], [["a"]], [b"x"], None])
def test_what_is_no_prompt_is_refused(llm: LLM, prompt: object) -> None:
    with pytest.raises(RequestRefused):
        llm.generate(prompt, GREEDY, use_tqdm=False)


def test_one_bad_prompt_ends_the_call_and_nothing_stays(llm: LLM) -> None:
    with pytest.raises(RequestRefused, match=r"prompts\[1\]|prompt has"):
        texts(llm, ["fine", "x" * 5000, "fine"])

    assert texts(llm, "fine")
    assert llm.reset_prefix_cache()


def test_several_answers_come_with_one_prompt(llm: LLM) -> None:
    params = SamplingParams(n=3, temperature=1, seed=3, max_tokens=5, ignore_eos=True)

    [output] = llm.generate("x", params, use_tqdm=False)

    assert len({answer.text for answer in output.outputs}) == 3
    assert output.finished


def test_chat_takes_one_conversation_or_several(llm: LLM) -> None:
    first = [{"role": "user", "content": "one"}]
    second = [{"role": "user", "content": [{"type": "text", "text": "two"}]}]

    alone = llm.chat(first, GREEDY, use_tqdm=False)
    both = llm.chat([first, second], GREEDY, use_tqdm=False)

    assert [output.prompt for output in both] == [
        "<user>one\n<assistant>",
        "<user>two\n<assistant>",
    ]
    assert both[0].outputs[0].text == alone[0].outputs[0].text


def test_a_bad_message_is_named(llm: LLM) -> None:
    with pytest.raises(RequestRefused, match=r"messages\[0\]\.role"):
        llm.chat([{"role": "nobody", "content": "x"}], GREEDY, use_tqdm=False)


def test_it_works_where_an_event_loop_runs_already(llm: LLM) -> None:
    async def cell() -> list[str]:
        return texts(llm, "notebook")

    assert asyncio.run(cell()) == texts(llm, "notebook")


def test_the_bar_shows_requests_and_rates(llm: LLM, capsys: pytest.CaptureFixture[str]) -> None:
    llm.generate(["a", "b"], GREEDY)

    bar = capsys.readouterr().err
    assert "2/2" in bar
    assert "tok/s" in bar


def test_an_unknown_option_suggests_the_nearest(tiny_model: str) -> None:
    with pytest.raises(ConfigError, match="max_model_len"):
        LLM(tiny_model, max_model_lenn=5)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"max_model_len": 512.5}, "max_model_len=512.5: must be a whole number"),
        ({"threads": 1.5}, "threads=1.5: must be a whole number. Change threads."),
        ({"seed": "x"}, "seed='x': must be a whole number"),
        ({"seed": True}, "seed=True: must be a number"),
        ({"enable_prefix_caching": "no"}, "enable_prefix_caching='no': must be True or False"),
        ({"model": 5}, "model=5: must be a text"),
        ({"served_model_name": 5}, "served_model_name=5: must be a text"),
        ({"gpu_memory_utilization": [0.5]}, "gpu_memory_utilization=[0.5]: must be a number"),
    ],
)
def test_a_keyword_of_another_type_is_refused_by_name(
    options: dict[str, object], reason: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(reason)):
        LLM(**options)


def test_keywords_are_read_as_flags_are() -> None:
    args = engine_args(
        "m",
        {
            "kv_cache_memory_bytes": "64M",
            "max_model_len": "4K",
            "block_size": "16",
            "gpu_memory_utilization": "0.5",
            "served_model_name": ["a", "b"],
            "tokenizer": Path("t"),
            "enable_prefix_caching": False,
            "seed": None,
        },
    )

    assert args == EngineArgs(
        model="m",
        kv_cache_memory_bytes=64 << 20,
        max_model_len=4096,
        block_size=16,
        gpu_memory_utilization=0.5,
        served_model_name=("a", "b"),
        tokenizer="t",
        enable_prefix_caching=False,
    )
    assert engine_args("m", {"served_model_name": "a"}).served_model_name == ("a",)


def test_a_closed_llm_says_so(tiny_model: str) -> None:
    llm = LLM(tiny_model, threads=1, max_num_seqs=1)
    llm.close()

    for call in (
        lambda: llm.generate("x"),
        lambda: llm.chat([{"role": "user", "content": "x"}]),
        lambda: llm.encode("x"),
    ):
        with pytest.raises(Closed, match="this LLM is closed"):
            call()


def test_a_refused_prompt_among_others_is_named(llm: LLM) -> None:
    too_long = [5] * 5000

    with pytest.raises(RequestRefused, match=r"^prompts\[1\] has 5000 tokens"):
        llm.generate([[5], too_long], GREEDY, use_tqdm=False)
    with pytest.raises(RequestRefused, match=r"^prompts\[1\] has 5000 tokens"):
        llm.generate([[5], TokensPrompt(token_ids=too_long)], GREEDY, use_tqdm=False)


@pytest.mark.slow
def test_a_script_that_does_not_close_it_ends(tiny_model: str) -> None:
    script = (
        "from octavo import LLM, SamplingParams\n"
        f"llm = LLM({tiny_model!r}, threads=1)\n"
        "print(len(llm.generate('x', SamplingParams(max_tokens=2, ignore_eos=True))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=False
    )

    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
