"""Frontend, engine and worker in one process."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from octavo.api.frontend.outputs import RequestOutput
from octavo.api.frontend.params import SamplingParams
from octavo.api.frontend.prompts import TokensPrompt
from octavo.config.args import EngineArgs
from octavo.config.octavo import OctavoConfig
from octavo.contracts.worker import WorkerInit
from octavo.kit.env import read_environment
from octavo.kit.errors import CheckpointError, EngineDied, OperatorError
from octavo.launch.inprocess import InProcess, open_llm
from octavo.resolve.load import load_config
from octavo.testing.fake_worker import FakeWorker
from tests.serve.tiny_model import write_tiny_model

PROMPT = [5, 6, 7, 8]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> OctavoConfig:
    folder = write_tiny_model(tmp_path_factory.mktemp("model"))
    args = EngineArgs(model=str(folder), log_level="error", kv_cache_memory_bytes=10_000_000)
    return load_config(args, read_environment())


async def ask(served: InProcess, name: str, max_tokens: int = 8) -> RequestOutput:
    params = SamplingParams(max_tokens=max_tokens, ignore_eos=True, seed=1)
    stream = await served.llm.add(TokensPrompt(token_ids=PROMPT), params, request_id=name)
    return await stream.final()


def test_requests_made_together_are_answered(config: OctavoConfig) -> None:
    async def ask_all(served: InProcess) -> list[RequestOutput]:
        return await asyncio.gather(*(ask(served, f"r{number}") for number in range(10)))

    with open_llm(config, worker=FakeWorker) as served:
        answers = served.run(ask_all(served))

    assert len({tuple(answer.outputs[0].token_ids) for answer in answers}) == 1
    assert len(answers[0].outputs[0].token_ids) == 8


def test_closing_ends_every_thread_and_may_be_repeated(config: OctavoConfig) -> None:
    before = set(threading.enumerate())
    served = open_llm(config, worker=FakeWorker)
    served.run(ask(served, "r"))

    served.close()
    served.close()

    assert set(threading.enumerate()) <= before
    assert served.loop.is_closed()


def test_closing_ends_what_runs(config: OctavoConfig) -> None:
    served = open_llm(config, worker=FakeWorker)
    running = asyncio.run_coroutine_threadsafe(ask(served, "r", max_tokens=400), served.loop)

    served.close()

    assert running.done()


class Cut(FakeWorker):
    """Its weights are cut off."""

    def load(self) -> None:
        raise CheckpointError("weights are cut off")


class Buggy(FakeWorker):
    """It does not load."""

    def load(self) -> None:
        raise ValueError("a bug")


class Dying(FakeWorker):
    """Its second step takes the thread with it."""

    def execute(self, plan: object) -> None:
        raise SystemExit(1)


def test_a_setup_that_the_operator_can_mend_raises_as_such(config: OctavoConfig) -> None:
    before = set(threading.enumerate())

    with pytest.raises(OperatorError, match="weights are cut off"):
        open_llm(config, worker=Cut)

    assert set(threading.enumerate()) <= before


def test_a_bug_in_the_start_raises_engine_died(config: OctavoConfig) -> None:
    with pytest.raises(EngineDied, match="a bug"):
        open_llm(config, worker=Buggy)


def test_a_model_without_a_tokenizer_ends_all_that_was_started(
    config: OctavoConfig, tmp_path: Path
) -> None:
    before = set(threading.enumerate())
    frontend = replace(config.frontend, tokenizer=str(tmp_path / "missing"))

    with pytest.raises(OperatorError, match="missing"):
        open_llm(replace(config, frontend=frontend), worker=FakeWorker)

    assert set(threading.enumerate()) <= before


def test_a_request_whose_engine_dies_fails(config: OctavoConfig) -> None:
    with open_llm(config, worker=Dying) as served:
        with pytest.raises(EngineDied, match="SystemExit"):
            served.run(ask(served, "r"))
        assert not served.llm.is_alive


def test_the_worker_may_be_named(config: OctavoConfig) -> None:
    with open_llm(config, worker=f"{__name__}:make_fake") as served:
        answer = served.run(ask(served, "r"))

    assert answer.finished


def make_fake(init: WorkerInit) -> FakeWorker:
    return FakeWorker(init)


def test_a_tokenizer_with_more_ids_than_the_model_is_refused_at_start(
    config: OctavoConfig,
) -> None:
    small = replace(config, model=replace(config.model, vocab_size=100))

    with pytest.raises(OperatorError, match=r"tokenizer=.* has token ids up to \d+, but"):
        open_llm(small, worker=FakeWorker)


def test_a_model_may_have_more_ids_than_its_tokenizer(config: OctavoConfig) -> None:
    padded = replace(config, model=replace(config.model, vocab_size=config.model.vocab_size + 64))

    with open_llm(padded, worker=FakeWorker) as served:
        assert served.llm.is_ready


def test_a_broken_chat_template_is_refused_at_start(config: OctavoConfig) -> None:
    broken = replace(config, frontend=replace(config.frontend, chat_template="{% for"))

    with pytest.raises(OperatorError, match=r"chat_template='{% for': is no template"):
        open_llm(broken, worker=FakeWorker)
