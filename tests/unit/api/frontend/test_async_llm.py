"""The frontend from ``add`` to the end of a stream, over a scripted engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from octavo.api.frontend.outputs import RequestOutput
from octavo.api.frontend.params import OutputKind, SamplingParams
from octavo.api.frontend.prompts import TextPrompt
from octavo.api.frontend.stream import RequestStream
from octavo.contracts.output import (
    EngineOutput,
    EngineOutputs,
    FinishReason,
    RequestError,
    UtilityResult,
)
from octavo.contracts.request import UtilityCall
from octavo.kit.errors import (
    EngineDied,
    OperatorError,
    Overloaded,
    PromptTooLong,
    RequestFailed,
    RequestRefused,
)
from octavo.testing.fake_tokenizer import BOS_ID, EOS_ID
from tests.unit.api.frontend.support import Bench, bench, config_with, text_output

DELTA = SamplingParams(output_kind=OutputKind.DELTA)


def run(scenario: Callable[[Bench], Awaitable[None]], set_up: Bench | None = None) -> None:
    async def main() -> None:
        async with set_up or bench() as at:
            await asyncio.wait_for(scenario(at), 10)

    asyncio.run(main())


async def read_all(stream: RequestStream) -> list[RequestOutput]:
    return [output async for output in stream]


def test_a_prompt_goes_to_the_engine_and_its_answer_comes_back() -> None:
    async def scenario(at: Bench) -> None:
        stream = await at.llm.add("Hi", SamplingParams(temperature=0), request_id="a")
        request = await at.engine.next_request()
        at.engine.say(text_output(request.request_id, "Tok", num_cached_tokens=2))
        at.engine.say(text_output(request.request_id, "yo"))
        at.engine.say(EngineOutput(request.request_id, [EOS_ID], FinishReason.STOP))
        output = await stream.final()

        assert request.prompt_token_ids == [BOS_ID, *b"Hi"]
        assert output.finished
        assert output.request_id == "a"
        assert output.outputs[0].text == "Tokyo"
        assert output.outputs[0].token_ids == [*b"Tokyo", EOS_ID]
        assert output.outputs[0].finish_reason == "stop"
        assert output.num_cached_tokens == 2
        assert at.llm.num_live == 0

    run(scenario)


def test_deltas_add_up_to_the_answer_and_a_slow_reader_gets_them_merged() -> None:
    async def scenario(at: Bench) -> None:
        stream = await at.llm.add("Hi", DELTA, request_id="a")
        name = (await at.engine.next_request()).request_id
        at.engine.say(text_output(name, "T"))
        first = await anext(stream)
        for letter in "oky":
            at.engine.say(text_output(name, letter))
        at.engine.say(text_output(name, "o", FinishReason.LENGTH))
        await at.settle()
        rest = await read_all(stream)

        assert first.outputs[0].text == "T"
        assert not first.finished
        assert [output.outputs[0].text for output in rest] == ["okyo"]
        assert rest[0].outputs[0].finish_reason == "length"

    run(scenario)


def test_a_stop_string_ends_the_answer_and_aborts_the_engine_request() -> None:
    async def scenario(at: Bench) -> None:
        params = SamplingParams(stop=("END",), output_kind=OutputKind.DELTA)
        stream = await at.llm.add("Hi", params, request_id="a")
        name = (await at.engine.next_request()).request_id
        at.engine.say(text_output(name, "abE"))
        assert (await anext(stream)).outputs[0].text == "ab"
        at.engine.say(text_output(name, "NDxyz"))
        last = await anext(stream)
        await at.engine.next()

        assert last.finished
        assert last.outputs[0].text == ""
        assert last.outputs[0].token_ids == list(b"ND")
        assert (last.outputs[0].finish_reason, last.outputs[0].stop_reason) == ("stop", "END")
        assert at.engine.aborted == [name]

    run(scenario)


def test_held_text_comes_before_the_end_when_no_stop_string_completes() -> None:
    async def scenario(at: Bench) -> None:
        params = SamplingParams(stop=("END",), output_kind=OutputKind.DELTA)
        stream = await at.llm.add("Hi", params, request_id="a")
        name = (await at.engine.next_request()).request_id
        at.engine.say(text_output(name, "abEN", FinishReason.LENGTH))
        outputs = await read_all(stream)

        assert "".join(output.outputs[0].text for output in outputs) == "abEN"
        assert outputs[-1].outputs[0].finish_reason == "length"

    run(scenario)


def test_n_answers_are_n_engine_requests_with_seeds_of_their_own() -> None:
    async def scenario(at: Bench) -> None:
        stream = await at.llm.add("Hi", SamplingParams(n=3, seed=5), request_id="a")
        requests = [await at.engine.next_request() for _ in range(3)]
        for request, text in zip(requests, ("x", "yy", "zzz"), strict=True):
            at.engine.say(text_output(request.request_id, text, FinishReason.LENGTH))
        output = await stream.final()

        assert [answer.text for answer in output.outputs] == ["x", "yy", "zzz"]
        assert [answer.index for answer in output.outputs] == [0, 1, 2]
        assert requests[0].sampling.seed == 5
        assert len({request.sampling.seed for request in requests}) == 3
        assert len({request.request_id for request in requests}) == 3

    run(scenario)


def test_equal_request_ids_do_not_cross() -> None:
    async def scenario(at: Bench) -> None:
        first = await at.llm.add("1", DELTA, request_id="same")
        second = await at.llm.add("2", DELTA, request_id="same")
        names = [(await at.engine.next_request()).request_id for _ in range(2)]
        at.engine.say(
            text_output(names[1], "two", FinishReason.LENGTH),
            text_output(names[0], "one", FinishReason.LENGTH),
        )

        assert (await first.final()).outputs[0].text == "one"
        assert (await second.final()).outputs[0].text == "two"

    run(scenario)


def test_closing_a_stream_aborts_the_request_and_frees_its_place() -> None:
    async def scenario(at: Bench) -> None:
        stream = await at.llm.add("Hi", DELTA, request_id="a")
        name = (await at.engine.next_request()).request_id
        await stream.aclose()
        await stream.aclose()
        await at.engine.next()
        at.engine.say(text_output(name, "late"))
        await at.settle()

        assert at.engine.aborted == [name]
        assert at.engine.is_quiet
        assert at.llm.num_live == 0
        assert await read_all(stream) == []

    run(scenario)


def test_closing_a_finished_stream_tells_the_engine_nothing() -> None:
    async def scenario(at: Bench) -> None:
        stream = await at.llm.add("Hi", DELTA, request_id="a")
        name = (await at.engine.next_request()).request_id
        at.engine.say(text_output(name, "x", FinishReason.LENGTH))
        await stream.final()
        await stream.aclose()

        assert at.engine.is_quiet

    run(scenario)


def test_abort_by_id_ends_the_stream_with_what_came_so_far() -> None:
    async def scenario(at: Bench) -> None:
        stream = await at.llm.add("Hi", SamplingParams(stop=("xyz",)), request_id="a")
        name = (await at.engine.next_request()).request_id
        at.engine.say(text_output(name, "abx"))
        await at.settle()
        await at.llm.abort("a")
        await at.llm.abort("unknown")
        output = await stream.final()

        assert output.outputs[0].text == "abx"
        assert output.outputs[0].finish_reason == "abort"

    run(scenario)


def test_cancelling_a_wait_for_the_end_aborts_the_request() -> None:
    async def scenario(at: Bench) -> None:
        stream = await at.llm.add("Hi", SamplingParams(), request_id="a")
        name = (await at.engine.next_request()).request_id
        waiting = asyncio.create_task(stream.final())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await at.engine.next()

        assert at.engine.aborted == [name]

    run(scenario)


def test_one_token_ids_text_that_breaks_ends_only_its_own_request() -> None:
    async def scenario(at: Bench) -> None:
        broken = await at.llm.add("1", DELTA, request_id="broken")
        sound = await at.llm.add("2", DELTA, request_id="sound")
        names = [(await at.engine.next_request()).request_id for _ in range(2)]
        at.engine.say(
            EngineOutput(names[0], [2**63]),  # more than the tokenizer library can look up
            text_output(names[1], "fine", FinishReason.LENGTH),
        )

        with pytest.raises(RequestFailed, match="could not be read"):
            await anext(broken)
        assert (await sound.final()).outputs[0].text == "fine"
        await at.engine.next()
        assert at.engine.aborted == [names[0]]

    run(scenario)


def test_an_error_of_the_engine_reaches_the_stream_after_what_came_before() -> None:
    async def scenario(at: Bench) -> None:
        stream = await at.llm.add("1", DELTA, request_id="a")
        name = (await at.engine.next_request()).request_id
        at.engine.say(text_output(name, "ab"))
        error = RequestError("its logits are not finite")
        at.engine.say(EngineOutput(name, [], FinishReason.ERROR, error=error))
        await at.settle()

        assert (await anext(stream)).outputs[0].text == "ab"
        with pytest.raises(RequestFailed, match="not finite"):
            await anext(stream)

    run(scenario)


def test_an_error_of_the_client_keeps_its_status_and_field() -> None:
    async def scenario(at: Bench) -> None:
        stream = await at.llm.add("1", SamplingParams(), request_id="a")
        name = (await at.engine.next_request()).request_id
        error = RequestError("nothing is allowed", param="allowed_token_ids", status=400)
        at.engine.say(EngineOutput(name, [], FinishReason.ERROR, error=error))

        with pytest.raises(RequestRefused, match="nothing is allowed") as caught:
            await stream.final()
        assert (caught.value.status, caught.value.param) == (400, "allowed_token_ids")

    run(scenario)


@pytest.mark.parametrize("how", ["message", "channel", "watcher"])
def test_the_death_of_the_engine_ends_every_stream_and_refuses_new_ones(how: str) -> None:
    async def scenario(at: Bench) -> None:
        streams = [await at.llm.add("1", DELTA, request_id=f"{i}") for i in range(3)]
        call = asyncio.create_task(at.llm.utility("sleep"))
        await asyncio.sleep(0)
        match how:
            case "message":
                at.engine.die("it broke")
            case "channel":
                at.engine.channel.break_off()
            case _:
                at.llm.engine_died("killed by signal 9")

        for stream in streams:
            with pytest.raises(EngineDied):
                await anext(stream)
        with pytest.raises(EngineDied):
            await call
        with pytest.raises(EngineDied):
            await at.llm.add("1", DELTA, request_id="late")
        assert not at.llm.is_alive
        assert not at.llm.is_ready
        assert at.llm.dead_reason
        assert at.llm.num_live == 0

    run(scenario)


def test_an_engine_that_cannot_start_says_whose_fault_it_is() -> None:
    async def start(*, operator: bool) -> None:
        at = bench()
        at.engine.die("no such model", operator=operator)
        try:
            await at.llm.start()
        finally:
            await at.llm.close()

    with pytest.raises(OperatorError, match="no such model"):
        asyncio.run(start(operator=True))
    with pytest.raises(EngineDied, match="no such model"):
        asyncio.run(start(operator=False))


def test_requests_before_the_engine_serves_are_refused() -> None:
    async def scenario() -> None:
        at = bench()
        with pytest.raises(EngineDied, match="not started"):
            await at.llm.add("1", DELTA, request_id="a")
        assert at.llm.is_alive
        assert not at.llm.is_ready
        await at.llm.close()

    asyncio.run(scenario())


def test_messages_of_an_older_engine_are_dropped() -> None:
    async def scenario(at: Bench) -> None:
        stream = await at.llm.add("1", DELTA, request_id="a")
        name = (await at.engine.next_request()).request_id
        at.engine.tell(EngineOutputs(0, 0, [text_output(name, "old", FinishReason.LENGTH)]))
        at.engine.say(text_output(name, "new", FinishReason.LENGTH))

        assert (await stream.final()).outputs[0].text == "new"

    run(scenario)


def test_a_restarted_engine_ends_what_ran_and_serves_what_comes() -> None:
    async def scenario(at: Bench) -> None:
        old = await at.llm.add("1", DELTA, request_id="a")
        await at.engine.next_request()
        at.engine.generation += 1
        at.engine.ready(max_model_len=64)
        with pytest.raises(EngineDied, match="started again"):
            await anext(old)
        new = await at.llm.add("1", DELTA, request_id="b")
        name = (await at.engine.next_request()).request_id
        at.engine.say(text_output(name, "x", FinishReason.LENGTH))

        assert (await new.final()).outputs[0].text == "x"

    run(scenario)


def test_the_engines_context_is_the_one_that_counts() -> None:
    async def scenario() -> None:
        at = bench()
        at.engine.ready(max_model_len=32)
        await at.llm.start()
        with pytest.raises(PromptTooLong, match="context holds 32"):
            await at.llm.add("x" * 40, SamplingParams(max_tokens=1), request_id="a")
        await at.llm.close()

    asyncio.run(scenario())


def test_more_requests_than_fit_are_refused_and_the_accepted_ones_complete() -> None:
    async def scenario(at: Bench) -> None:
        streams = [await at.llm.add("1", DELTA, request_id=f"{i}") for i in range(8)]
        with pytest.raises(Overloaded) as caught:
            await at.llm.add("1", DELTA, request_id="ninth")
        names = [(await at.engine.next_request()).request_id for _ in range(8)]
        at.engine.say(*[text_output(name, "x", FinishReason.LENGTH) for name in names])
        outputs = [await stream.final() for stream in streams]
        await at.llm.add("1", DELTA, request_id="tenth")

        assert caught.value.retry_after_s >= 1
        assert [output.outputs[0].text for output in outputs] == ["x"] * 8

    run(scenario)


def test_refused_requests_leave_no_trace() -> None:
    async def scenario(at: Bench) -> None:
        for number in range(20):
            with pytest.raises(RequestRefused):
                await at.llm.add([], DELTA, request_id=f"{number}")
            with pytest.raises(RequestRefused):
                await at.llm.add("x", SamplingParams(temperature=-1), request_id=f"{number}")

        assert at.llm.num_live == 0
        assert at.engine.is_quiet
        await at.llm.add("1", DELTA, request_id="a")

    run(scenario)


def test_control_calls_are_answered() -> None:
    async def scenario(at: Bench) -> None:
        call = asyncio.create_task(at.llm.utility("reset_prefix_cache", [True]))
        message = await at.engine.next()
        assert isinstance(message, UtilityCall)
        assert (message.method, message.args) == ("reset_prefix_cache", [True])
        at.engine.answer(UtilityResult(message.call_id, value=True))
        assert await call is True

        call = asyncio.create_task(at.llm.utility("nonsense"))
        message = await at.engine.next()
        assert isinstance(message, UtilityCall)
        at.engine.answer(UtilityResult(message.call_id, error="there is no nonsense"))
        with pytest.raises(RequestRefused, match="no nonsense"):
            await call

    run(scenario)


def test_a_chat_is_rendered_and_read_without_a_second_begin_of_text() -> None:
    async def scenario(at: Bench) -> None:
        text = await at.llm.render_chat([{"role": "user", "content": "Hi"}])
        prompt = TextPrompt(text=text, add_special_tokens=False)
        await at.llm.add(prompt, DELTA, request_id="a")
        request = await at.engine.next_request()

        assert text == "<bos><|user|>Hi\n<|assistant|>"
        assert request.prompt_token_ids.count(BOS_ID) == 1

    run(scenario)


def test_the_operators_template_replaces_the_models() -> None:
    async def scenario(at: Bench) -> None:
        assert await at.llm.render_chat([{"role": "user", "content": "Hi"}]) == "[Hi]"

    run(scenario, bench(config_with(chat_template="[{{ messages[0].content }}]")))


def test_text_and_tokens_convert_both_ways() -> None:
    async def scenario(at: Bench) -> None:
        token_ids = await at.llm.encode("héllo", add_special_tokens=True)

        assert token_ids == [BOS_ID, *"héllo".encode()]
        assert await at.llm.decode(token_ids) == "<bos>héllo"
        with pytest.raises(RequestRefused, match=r"tokens\[1\]=262") as caught:
            await at.llm.decode([1, 262])
        assert caught.value.param == "tokens"

    run(scenario)


def test_closing_twice_is_closing_once() -> None:
    async def scenario(at: Bench) -> None:
        stream = await at.llm.add("1", DELTA, request_id="a")
        await at.llm.close()
        await at.llm.close()

        with pytest.raises(EngineDied, match="shutting down"):
            await anext(stream)

    run(scenario)
