from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from octavo.api.frontend.outputs import RequestOutput
from octavo.api.frontend.params import OutputKind, SamplingParams
from octavo.entrypoints.offline import Batch, Job, Progress, given
from octavo.kit.errors import Overloaded, RequestRefused
from octavo.testing.fake_llm import FakeLLM, FakeStream
from octavo.testing.served import text_config


class Crowded(FakeLLM):
    """Takes two requests at once."""

    async def add(self, prompt, params, *, request_id, priority=0, cache_salt="") -> FakeStream:
        if len(self.live) >= 2:
            raise Overloaded("full", retry_after_s=1)
        return await super().add(prompt, params, request_id=request_id)


def run(llm: FakeLLM, texts: list[str], params: SamplingParams | None = None) -> list[str]:
    jobs = [Job(given(text), params or SamplingParams(max_tokens=3)) for text in texts]

    async def batch() -> list[RequestOutput]:
        with Progress(len(jobs), is_shown=False) as progress:
            return await Batch(llm, jobs, progress).run()

    return [output.prompt or "" for output in asyncio.run(batch())]


@pytest.fixture
def llm() -> FakeLLM:
    return FakeLLM(text_config())


def test_results_are_in_the_order_of_the_prompts(llm: FakeLLM) -> None:
    names = [f"prompt {index}" for index in range(50)]

    assert run(llm, names) == names


def test_a_full_server_is_waited_for() -> None:
    llm = Crowded(text_config())
    names = [f"prompt {index}" for index in range(20)]

    assert run(llm, names) == names
    assert llm.most_live == 2


def test_no_more_are_handed_over_than_the_server_takes(llm: FakeLLM) -> None:
    config = llm.config
    llm.config = replace(
        config,
        scheduler=replace(config.scheduler, max_num_seqs=2),
        frontend=replace(config.frontend, max_waiting_requests=3),
    )
    llm.step_s = 0.001

    run(llm, [f"prompt {index}" for index in range(30)])

    assert llm.most_live == 5


def test_a_server_that_is_full_of_others_is_not_waited_for(llm: FakeLLM) -> None:
    llm.refusal = Overloaded("full", retry_after_s=1)

    with pytest.raises(Overloaded):
        run(llm, ["a"])


def test_the_first_error_ends_the_others(llm: FakeLLM) -> None:
    llm.refused_prompt, llm.step_s, llm.answer = "bad", 0.01, "x" * 1000

    with pytest.raises(RequestRefused, match="is refused"):
        run(llm, ["a", "b", "bad", "c"], SamplingParams(max_tokens=1000))

    assert llm.num_generated < 20


def test_outputs_are_whole_whatever_was_asked_for(llm: FakeLLM) -> None:
    run(llm, ["a"], SamplingParams(max_tokens=3, output_kind=OutputKind.DELTA))

    assert llm.params[0].output_kind is OutputKind.FINAL
