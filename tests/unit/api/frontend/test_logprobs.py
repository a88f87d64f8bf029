"""Log-probabilities from the engine's arrays to the user's shape."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from octavo.api.frontend.logprobs import LogprobReader
from octavo.api.frontend.outputs import Logprob
from octavo.api.frontend.params import OutputKind, SamplingParams
from octavo.contracts.output import EngineOutput, FinishReason, TokenLogprobs
from octavo.testing.fake_tokenizer import FakeTokenizer
from tests.unit.api.frontend.support import Bench, bench

TOKENIZER = FakeTokenizer()


def rows(*positions: list[tuple[int, float]], ranks: list[int]) -> TokenLogprobs:
    return TokenLogprobs(
        token_ids=np.array([[t for t, _ in row] for row in positions], dtype=np.int32),
        values=np.array([[v for _, v in row] for row in positions], dtype=np.float32),
        ranks=np.array(ranks, dtype=np.int32),
    )


def test_the_sampled_token_comes_first_then_alternatives_as_they_fall() -> None:
    reader = LogprobReader(TOKENIZER.token_bytes, 2)

    [position] = reader.read(rows([(65, -2.0), (66, -0.5), (67, -1.0)], ranks=[3]))

    assert list(position) == [65, 66, 67]
    assert position[65] == Logprob(-2.0, 3, "A", b"A")
    assert [entry.rank for entry in position.values()] == [3, 1, 2]


def test_a_sampled_token_among_the_alternatives_is_there_once_with_its_rank() -> None:
    reader = LogprobReader(TOKENIZER.token_bytes, 2)

    [position] = reader.read(rows([(66, -0.5), (66, -0.5), (67, -1.0)], ranks=[1]))

    assert list(position) == [66, 67]
    assert position[66].rank == 1


def test_columns_that_only_a_neighbour_asked_for_are_left_out() -> None:
    wide = rows([(65, -2.0), (66, -0.5), (67, -1.0)], ranks=[3])

    assert list(LogprobReader(TOKENIZER.token_bytes, 1).read(wide)[0]) == [65, 66]
    assert list(LogprobReader(TOKENIZER.token_bytes, 0).read(wide)[0]) == [65]


def test_bytes_that_are_no_character_are_shown_and_kept() -> None:
    [position] = LogprobReader(TOKENIZER.token_bytes, 0).read(rows([(0xE4, -1.0)], ranks=[1]))

    assert position[0xE4].decoded_token == "\ufffd"
    assert position[0xE4].token_bytes == b"\xe4"


def say(at: Bench, name: str, text: bytes, **fields: object) -> None:
    values = rows(*[[(token_id, -1.0)] for token_id in text], ranks=[1] * len(text))
    at.engine.say(EngineOutput(name, list(text), logprobs=values, **fields))


@pytest.mark.parametrize("kind", list(OutputKind))
def test_there_is_one_position_per_token_and_their_sum(kind: OutputKind) -> None:
    async def scenario() -> None:
        async with bench() as at:
            params = SamplingParams(logprobs=0, output_kind=kind)
            stream = await at.llm.add("Hi", params, request_id="a")
            name = (await at.engine.next_request()).request_id
            say(at, name, b"ab")
            await at.settle()
            say(at, name, b"c", finish_reason=FinishReason.LENGTH)
            outputs = [output.outputs[0] async for output in stream]

            assert sum(len(output.token_ids) for output in outputs) == 3
            assert sum(len(output.logprobs or ()) for output in outputs) == 3
            assert outputs[-1].cumulative_logprob == pytest.approx(-3.0)

    asyncio.run(scenario())


def test_tokens_after_a_stop_string_have_no_position() -> None:
    async def scenario() -> None:
        async with bench() as at:
            params = SamplingParams(logprobs=0, stop=("b",))
            stream = await at.llm.add("Hi", params, request_id="a")
            name = (await at.engine.next_request()).request_id
            say(at, name, b"abcd")
            output = (await stream.final()).outputs[0]

            assert output.token_ids == list(b"ab")
            assert [list(position) for position in output.logprobs or ()] == [[97], [98]]
            assert output.cumulative_logprob == pytest.approx(-2.0)

    asyncio.run(scenario())


def test_prompt_logprobs_come_whole_with_the_first_output_and_only_once() -> None:
    async def scenario() -> None:
        async with bench() as at:
            params = SamplingParams(prompt_logprobs=0, n=2, output_kind=OutputKind.DELTA)
            stream = await at.llm.add([65, 66, 67, 68], params, request_id="a")
            first, second = [await at.engine.next_request() for _ in range(2)]
            assert (first.sampling.prompt_logprobs, second.sampling.prompt_logprobs) == (0, None)
            for piece in (b"BC", b"D"):
                values = rows(*[[(token_id, -1.0)] for token_id in piece], ranks=[1] * len(piece))
                at.engine.say(EngineOutput(first.request_id, [], prompt_logprobs=values))
            at.engine.say(EngineOutput(second.request_id, [70], FinishReason.LENGTH))
            before = await anext(stream)
            at.engine.say(EngineOutput(first.request_id, [69]))
            whole = await anext(stream)
            at.engine.say(EngineOutput(first.request_id, [69], FinishReason.LENGTH))
            after = await anext(stream)

            assert before.prompt_logprobs is None
            assert whole.prompt_logprobs is not None
            assert whole.prompt_logprobs[0] is None
            assert [list(position or ()) for position in whole.prompt_logprobs] == [
                [],
                [66],
                [67],
                [68],
            ]
            assert after.prompt_logprobs is None

    asyncio.run(scenario())
