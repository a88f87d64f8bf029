from __future__ import annotations

import pytest

from octavo.contracts.output import FinishReason
from octavo.engine.request import RequestStatus
from octavo.testing.fake_config import fake_config, fake_scheduler_config
from tests.engine.harness import Engine, request

both = pytest.mark.parametrize("overlap", [False, True])


def make(overlap: bool = True, **scheduler) -> Engine:
    return Engine(fake_config(fake_scheduler_config(overlap=overlap, **scheduler)))


def step_until(engine: Engine, is_so) -> None:
    for _ in range(1000):
        if is_so():
            return
        engine.step()
    pytest.fail("it never came true")


@both
def test_the_token_after_the_last_by_length_is_not_computed(overlap):
    engine = make(overlap)
    engine.add(request("r", range(10), 6))

    engine.run()

    assert engine.worker.num_computed_tokens == 10 + 6 - 1


def test_who_has_stopped_keeps_row_and_blocks_until_its_last_plan_is_updated():
    engine = make()
    prompt = [1, 2, 3, 4, 5]
    [stop] = engine.expected(request("r", prompt, 1))[0]
    engine.add(request("r", prompt, 8, stop_token_ids=[stop]))
    live = engine.core.table.find("r")

    step_until(engine, lambda: live.status is RequestStatus.FINISHED)

    assert engine.heard["r"].finish_reason is FinishReason.STOP
    assert live.num_in_flight == 1
    assert live.row >= 0
    assert live.block_ids

    engine.step()

    assert live.row == -1
    engine.assert_everything_is_free()
    assert engine.heard["r"].token_ids == [stop]


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_a_preempted_request_keeps_the_token_in_flight_and_waits_for_its_plan(policy):
    engine = make(policy=policy)
    engine.add(request("r", [1, 2, 3], 8))
    engine.step()
    live = engine.core.table.find("r")
    engine.core.scheduler.preempt(live)

    engine.step()

    assert live.row == -1
    assert len(engine.heard["r"].token_ids) == 1
    assert live.num_tokens == len(live.token_ids)

    engine.run()
    engine.assert_answers(request("r", [1, 2, 3], 8))


def test_the_token_in_flight_of_a_preempted_request_may_end_it():
    engine = make()
    engine.add(request("r", [1, 2, 3], 1))
    engine.step()
    engine.core.scheduler.preempt(engine.core.table.find("r"))

    engine.run()

    engine.assert_answers(request("r", [1, 2, 3], 1))
    engine.assert_everything_is_free()


@both
@pytest.mark.parametrize("num_steps", range(12))
def test_an_abort_is_safe_at_every_moment(overlap, num_steps):
    engine = make(overlap, max_num_batched_tokens=8)
    victim, other = request("victim", range(30), 5), request("other", range(50, 60), 12)
    engine.add(victim)
    engine.add(other)
    for _ in range(num_steps):
        engine.step()

    engine.abort("victim", "victim", "unknown")
    engine.abort("victim")
    engine.run()

    heard = engine.heard["victim"]
    assert heard.finish_reason in (FinishReason.ABORT, engine.expected(victim)[1])
    engine.assert_answers(other)
    engine.assert_everything_is_free()


@both
def test_equal_prompts_are_computed_once(overlap):
    engine = make(overlap)
    requests = [request(f"r{i}", range(1, 41), 4, seed=i) for i in range(6)]
    for each in requests:
        engine.add(each)

    engine.run()

    shared = 36  # full blocks of 4 that leave a token to compute
    assert engine.worker.num_computed_tokens == 40 + 5 * (40 - shared) + 6 * 3
    assert [h.outputs[0].num_cached_tokens for h in engine.heard.values()] == [0] + [shared] * 5
    engine.assert_answers(*requests)


@both
def test_a_prompt_in_chunks_lets_those_that_share_less_start_earlier(overlap):
    engine = make(overlap, max_num_batched_tokens=16)
    engine.add(request("long", range(1, 121), 2))
    engine.add(request("short", [*range(1, 9), 500, 501], 2))

    engine.run()

    assert engine.heard["short"].outputs[0].num_cached_tokens == 8


@both
@pytest.mark.parametrize("how", ["abort", "preempt"])
def test_who_waits_for_anothers_block_goes_on_without_it(overlap, how):
    engine = make(overlap, max_num_batched_tokens=8)
    first, second = request("first", range(1, 61), 4), request("second", range(1, 61), 4, seed=1)
    engine.add(first)
    engine.add(second)
    engine.step()
    engine.step()
    assert len(engine.core.table.running) == 1

    if how == "abort":
        engine.abort("first")
    else:
        engine.core.scheduler.preempt(engine.core.table.find("first"))
    engine.run()

    engine.assert_answers(second, *([first] if how == "preempt" else []))
    engine.assert_everything_is_free()


@both
def test_blocks_are_not_findable_before_their_step_is_updated(overlap):
    engine = make(overlap)
    engine.add(request("r", range(1, 21), 4))

    engine.core.begin()

    assert engine.core.kv.num_cached_blocks == 0


@both
def test_a_salt_keeps_prefixes_apart(overlap):
    engine = make(overlap)
    for name, salt in (("a", ""), ("b", "x"), ("c", "x")):
        engine.add(request(name, range(1, 21), 2, cache_salt=salt))
        engine.run()

    cached = [engine.heard[name].outputs[0].num_cached_tokens for name in "abc"]
    assert cached == [0, 0, 16]


@both
def test_a_request_with_prompt_logprobs_takes_no_hit_and_gets_every_position(overlap):
    engine = make(overlap, max_num_batched_tokens=8)
    prompt = list(range(1, 31))
    engine.add(request("warm", prompt, 2))
    engine.run()
    engine.add(request("r", prompt, 2, prompt_logprobs=3, logprobs=1))

    engine.run()

    outputs = engine.heard["r"].outputs
    pieces = [o.prompt_logprobs for o in outputs if o.prompt_logprobs is not None]
    assert outputs[0].num_cached_tokens == 0
    assert [t for p in pieces for t in p.token_ids[:, 0].tolist()] == prompt[1:]
    assert all(piece.values.shape[1] == 4 for piece in pieces)
    sampled = [o for o in outputs if o.new_token_ids]
    assert [o.logprobs.token_ids[0, 0] for o in sampled] == engine.heard["r"].token_ids
    assert all(o.logprobs.values.shape == (1, 2) for o in sampled)
    assert len(pieces) == 4


@both
def test_preemption_does_not_repeat_prompt_logprobs(overlap):
    engine = make(overlap, max_num_batched_tokens=8)
    prompt = list(range(1, 31))
    engine.add(request("r", prompt, 2, prompt_logprobs=1))
    for _ in range(3):
        engine.step()
    engine.core.scheduler.preempt(engine.core.table.find("r"))

    engine.run()

    pieces = [o.prompt_logprobs for o in engine.heard["r"].outputs if o.prompt_logprobs is not None]
    assert [t for p in pieces for t in p.token_ids[:, 0].tolist()] == prompt[1:]
    engine.assert_answers(request("r", prompt, 2, prompt_logprobs=1))


@both
def test_a_request_continues_after_tokens_that_were_emitted_before(overlap):
    engine = make(overlap)
    whole = engine.expected(request("r", range(5), 10))[0]
    resumed = request("r", range(5), 6)
    resumed = type(resumed)(
        "r", resumed.prompt_token_ids, resumed.sampling, 0.0, output_token_ids=whole[:4]
    )
    engine.add(resumed)

    engine.run()

    assert engine.heard["r"].token_ids == whole[4:]


@both
def test_stop_tokens_do_not_end_an_answer_before_min_tokens(overlap):
    engine = make(overlap)
    everything = list(range(400))
    ended = request("r", range(5), 30, stop_token_ids=everything, min_tokens=7)
    engine.add(ended)

    engine.run()

    assert len(engine.heard["r"].token_ids) > 7
    engine.assert_answers(ended)


@both
def test_a_stop_token_is_named_unless_it_is_the_end_of_text(overlap):
    engine = make(overlap)
    [stop] = engine.expected(request("r", range(5), 1))[0]
    engine.add(request("named", range(5), 9, stop_token_ids=[stop]))
    engine.add(request("eos", range(5), 9, stop_token_ids=[stop], eos_token_ids=[stop]))

    engine.run()

    assert engine.heard["named"].outputs[-1].stop_reason == stop
    assert engine.heard["eos"].outputs[-1].stop_reason is None
    assert engine.heard["eos"].finish_reason is FinishReason.STOP
