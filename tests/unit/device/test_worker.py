from __future__ import annotations

import gc
import logging
import random

import numpy as np
import pytest
import torch

from octavo.config.octavo import OctavoConfig
from octavo.contracts.codec import Codec
from octavo.contracts.runner import ModelRunnerOutput, RowStatus
from octavo.contracts.sampling import Penalties, TokenSampling
from octavo.contracts.schedule import SampleInput, SchedulerOutput
from octavo.contracts.worker import WorkerInit
from octavo.device.sample.logprobs import positions_at_once
from octavo.device.worker import Worker
from octavo.kit.errors import NotFound
from tests.unit.device.plans import Live, Planner, plan_kv, take
from tests.unit.device.sample.oracle import expected
from tests.unit.device.tiny import TinyModel, load_tiny, tiny_config

GREEDY = TokenSampling(max_tokens=8, temperature=0.0)


class Served:
    """A worker of the tiny model that is ready, and its planner."""

    def __init__(self, config: OctavoConfig | None = None, model: TinyModel | None = None) -> None:
        self.config = config or tiny_config()
        self.model = model or TinyModel()
        self.worker = Worker(WorkerInit(self.config), lambda *_: self.model)
        self.worker.load()
        specs = self.worker.kv_cache_specs()
        self.kv_cache = plan_kv(specs, self.config.cache.num_blocks)
        self.worker.allocate(self.kv_cache)
        self.planner = Planner(self.kv_cache)

    def step(self, grants: list[tuple[Live, int]]) -> ModelRunnerOutput:
        plan = self.planner.plan(grants)
        self.worker.execute(plan)
        sampled = self.worker.sample(SampleInput(plan.step))
        assert sampled.step == plan.step
        take(grants, sampled)
        return sampled

    def decode(self, live: Live, count: int) -> list[int]:
        while len(live.output) < count:
            self.step([(live, len(live.tokens) - live.computed)])
        return live.output


def wanted(model: TinyModel, prompt: list[int], sampling: TokenSampling, count: int) -> list[int]:
    """Tokens by the plain model alone: no rows, no KV, one request."""
    output: list[int] = []
    while len(output) < count:
        logits = model.logits_of(prompt + output)[-1].numpy()
        token = expected(logits, sampling, prompt, output).token
        assert token is not None
        output.append(token)
    return output


SAMPLINGS = [
    GREEDY,
    TokenSampling(max_tokens=8, temperature=3.0, seed=11),
    TokenSampling(max_tokens=8, temperature=2.0, top_k=20, top_p=0.9, seed=12, logprobs=2),
    TokenSampling(max_tokens=8, temperature=0.0, penalties=Penalties(1.5, 1.0, 1.0)),
    TokenSampling(max_tokens=8, temperature=2.0, min_p=0.01, bad_words_token_ids=[[3], [5, 6]]),
]


@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("chunk", [1, 3, 64])
def test_tokens_equal_those_of_the_plain_model_in_any_chunks(block_size: int, chunk: int) -> None:
    served = Served(tiny_config(block_size=block_size, num_blocks=500))
    rng = random.Random(chunk)
    lives = [
        Live(row, [rng.randrange(97) for _ in range(length)], length, SAMPLINGS[row % 5])
        for row, length in zip([13, 2, 0, 7, 4], [1, 17, 5, 30, 9], strict=True)
    ]

    while any(len(live.output) < 6 for live in lives):
        going = [live for live in lives if len(live.output) < 6]
        rng.shuffle(going)
        budget, grants = 64, []
        for live in going:
            count = min(chunk, len(live.tokens) - live.computed, budget)
            budget -= count
            if count:
                grants.append((live, count))
        served.step(grants)

    for live in lives:
        prompt = live.tokens[: live.num_prompt]
        assert live.output == wanted(served.model, prompt, live.sampling, 6)


def test_rows_and_blocks_are_used_again_by_the_plan_that_frees_them() -> None:
    served = Served()
    first = Live(3, [5, 6, 7], 3, GREEDY)
    other = Live(1, [8, 9], 2, GREEDY)
    served.step([(first, 3), (other, 2)])
    served.planner.end(first)
    again = Live(3, [9, 1, 1, 2, 4], 5, SAMPLINGS[2])

    served.step([(other, 1), (again, 5)])
    served.decode(again, 5)

    assert again.output == wanted(served.model, [9, 1, 1, 2, 4], SAMPLINGS[2], 5)
    assert other.output == wanted(served.model, [8, 9], GREEDY, 2)


def test_a_resumed_request_goes_on_as_if_undisturbed() -> None:
    sampling = TokenSampling(
        max_tokens=8,
        temperature=1.5,
        seed=3,
        penalties=Penalties(1.2, 0.5, 0.5),
        min_tokens=5,
        stop_token_ids=list(range(40)),
    )
    served = Served()
    whole = served.decode(Live(0, [4, 5, 6], 3, sampling), 8)

    resumed = Live(5, [4, 5, 6, *whole[:4]], 3, sampling)

    assert served.decode(resumed, 8) == whole


def test_a_prefix_hit_computes_only_what_is_left() -> None:
    served = Served()
    first = Live(0, [1, 2, 3, 4, 5, 6], 6, GREEDY)
    served.decode(first, 1)
    [new] = served.planner.plan([(Live(1, [1, 2, 3, 4, 8], 5, GREEDY), 5)]).new
    hit = [[mine[0], theirs[1]] for mine, theirs in zip(first.blocks, new.block_ids, strict=True)]
    plan = SchedulerOutput(
        step=9,
        new=[type(new)(1, "hit", new.token_ids, 5, hit, num_computed_tokens=4, sampling=GREEDY)],
        rows=np.array([1], np.int32),
        num_scheduled_tokens=np.array([1], np.int32),
    )

    served.worker.execute(plan)
    sampled = served.worker.sample(SampleInput(9))

    assert sampled.token_ids.tolist() == [wanted(served.model, [1, 2, 3, 4, 8], GREEDY, 1)]


def test_the_next_step_is_taken_before_the_reply_of_the_last_one_is_read() -> None:
    served = Served()
    live = Live(0, [1, 2, 3], 3, SAMPLINGS[1])
    plans = [served.planner.plan([(live, 3)])]
    live.computed = 3
    for _ in range(4):
        plans.append(served.planner.plan([(live, 1)]))
        live.computed += 1

    replies = []
    for plan in plans:
        served.worker.execute(plan)
        replies.append(served.worker.sample(SampleInput(plan.step)))

    tokens = [int(reply.token_ids[0, 0]) for reply in replies]
    assert tokens == wanted(served.model, [1, 2, 3], SAMPLINGS[1], 5)


def test_the_head_runs_only_for_rows_that_sample() -> None:
    served = Served()
    lives = [Live(row, list(range(1, 11)), 10, GREEDY) for row in range(3)]

    served.step([(lives[0], 10), (lives[1], 4), (lives[2], 10)])
    served.step([(lives[1], 5)])

    assert served.model.head_rows == [2]


def test_a_prompt_that_is_not_complete_samples_nothing() -> None:
    served = Served()
    live = Live(0, [1, 2, 3, 4], 4, GREEDY)

    sampled = served.step([(live, 3)])

    assert sampled.num_tokens.tolist() == [0]
    assert sampled.row_status.tolist() == [RowStatus.OK]
    assert sampled.device_time_s > 0


def test_a_row_that_is_not_finite_leaves_its_neighbours_alone_and_can_go_on() -> None:
    served = Served(model=TinyModel(poison=50))
    bad = Live(0, [1, 50], 2, GREEDY)
    good = Live(1, [3, 4], 2, GREEDY)
    plans = [served.planner.plan([(bad, 2), (good, 2)])]
    bad.computed = good.computed = 2
    plans.append(served.planner.plan([(bad, 1), (good, 1)]))

    replies = []
    for plan in plans:
        served.worker.execute(plan)
        replies.append(served.worker.sample(SampleInput(plan.step)))

    assert replies[0].row_status.tolist() == [RowStatus.NOT_FINITE, RowStatus.OK]
    assert replies[0].num_tokens.tolist() == [0, 1]
    tokens = [int(reply.token_ids[1, 0]) for reply in replies]
    assert tokens == wanted(served.model, [3, 4], GREEDY, 2)


@pytest.mark.parametrize("chunk", [1, 3, 20])
def test_prompt_logprobs_come_in_pieces_and_equal_the_plain_model(chunk: int) -> None:
    served = Served()
    prompt = [(7 * place) % 97 for place in range(20)]
    live = Live(
        2, list(prompt), 20, TokenSampling(max_tokens=2, temperature=0.0, prompt_logprobs=3)
    )
    other = Live(0, [5, 6], 2, GREEDY)

    pieces = []
    while not live.output:
        sampled = served.step(
            [(other, len(other.tokens) - other.computed), (live, min(chunk, 20 - live.computed))]
        )
        pieces += sampled.prompt_logprobs
    later = served.step([(live, 1)]).prompt_logprobs

    assert later == []
    assert {piece.index for piece in pieces} == {1}
    found = np.concatenate([piece.logprobs.values for piece in pieces])
    ids = np.concatenate([piece.logprobs.token_ids for piece in pieces])
    ranks = np.concatenate([piece.logprobs.ranks for piece in pieces])
    assert ids[:, 0].tolist() == prompt[1:]
    logits = served.model.logits_of(prompt)[:-1]
    for place, line in enumerate(logits.numpy()):
        want = expected(line, GREEDY, prompt, [])
        assert ids[place, 1:].tolist() == want.top[:3]
        np.testing.assert_allclose(found[place], want.logprobs[ids[place]], atol=2e-5)
        assert ranks[place] == 1 + (line > line[prompt[place + 1]]).sum()


def test_logits_of_a_prompt_are_made_in_bounded_pieces() -> None:
    many = positions_at_once(97)
    served = Served(
        tiny_config(max_model_len=many + 20, max_num_batched_tokens=many + 20, num_blocks=22_000)
    )
    prompt = [(5 * place) % 97 for place in range(many + 10)]
    sampling = TokenSampling(max_tokens=2, temperature=0.0, prompt_logprobs=0)

    sampled = served.step([(Live(0, list(prompt), many + 10, sampling), many + 10)])

    assert served.model.head_rows == [many, 9, 1]
    [told] = sampled.prompt_logprobs
    assert told.logprobs.token_ids[:, 0].tolist() == prompt[1:]


def test_a_prompt_that_is_not_finite_ends_its_row_without_logprobs() -> None:
    served = Served(model=TinyModel(poison=50))
    sampling = TokenSampling(max_tokens=2, temperature=0.0, prompt_logprobs=0)

    sampled = served.step([(Live(0, [50, 1, 2], 3, sampling), 3)])

    assert sampled.row_status.tolist() == [RowStatus.NOT_FINITE]
    assert sampled.num_tokens.tolist() == [0]
    assert sampled.prompt_logprobs == []


def test_a_plan_may_come_from_a_message_and_a_reply_may_become_one() -> None:
    served = Served()
    plan = served.planner.plan([(Live(0, [1, 2, 3], 3, SAMPLINGS[2]), 3)])
    plans, replies = (
        Codec[SchedulerOutput](SchedulerOutput),
        Codec[ModelRunnerOutput](ModelRunnerOutput),
    )

    served.worker.execute(plans.decode(plans.encode(plan)))
    sampled = served.worker.sample(SampleInput(plan.step))

    again = replies.decode(replies.encode(sampled))
    assert again.token_ids.tolist() == sampled.token_ids.tolist()
    assert again.logprobs is not None


def test_warm_up_leaves_no_trace() -> None:
    fresh, warmed = Served(), Served()

    warmed.worker.warm_up()

    assert len(warmed.model.head_rows) > 2
    assert warmed.worker.call("num_used_rows", []) == 0
    prompt = Live(0, [1, 2, 3], 3, SAMPLINGS[2]), Live(0, [1, 2, 3], 3, SAMPLINGS[2])
    assert fresh.decode(prompt[0], 4) == warmed.decode(prompt[1], 4)


@pytest.mark.parametrize("num_blocks", [1, 2, 3])
def test_warm_up_fits_the_smallest_caches(num_blocks: int) -> None:
    served = Served(tiny_config(num_blocks=num_blocks))

    served.worker.warm_up()

    assert served.worker.call("num_used_rows", []) == 0


def test_reset_forgets_rows_and_plans_in_flight() -> None:
    served = Served()
    live = Live(0, [1, 2, 3], 3, GREEDY)
    served.worker.execute(served.planner.plan([(live, 3)]))

    served.worker.reset()

    assert served.worker.call("num_used_rows", []) == 0
    again = Live(0, [1, 2, 3], 3, GREEDY)
    assert served.decode(again, 3) == wanted(served.model, [1, 2, 3], GREEDY, 3)


def test_nothing_grows_after_allocate() -> None:
    served = Served()
    before = served.worker.call("allocated_bytes", [])
    bytes_before = _lasting_tensors()
    rng = random.Random(1)
    for turn in range(60):
        live = Live(turn % 16, [rng.randrange(97) for _ in range(12)], 12, SAMPLINGS[turn % 5])
        served.decode(live, 3)
        served.planner.end(live)

    assert served.worker.call("allocated_bytes", []) == before
    # Rows that were used hold the few numbers of their last request's parameters.
    assert _lasting_tensors() - bytes_before < 4096


def test_specs_and_memory_are_told_before_anything_is_allocated() -> None:
    config = tiny_config(block_size=8)
    worker = Worker(WorkerInit(config), load_tiny)
    worker.load()

    specs = worker.kv_cache_specs()
    report = worker.measure_memory()

    assert [(s.layer, s.kind, s.window, s.bytes_per_block) for s in specs] == [
        (0, "full", None, 64),
        (1, "window", 5, 64),
    ]
    assert report.weights_bytes == 2 * 97 * 16 * 8
    assert 0 < report.available_for_kv_bytes < report.total_bytes
    assert report.workspace_bytes >= config.scheduler.max_rows * 4 * config.model.max_model_len


def test_loading_is_told_at_its_start_and_end(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(WorkerInit(tiny_config()), load_tiny)
    caplog.set_level(logging.INFO, logger="octavo.device.worker")

    worker.load()

    first, last = (record.getMessage() for record in caplog.records)
    assert first == "loading tiny"
    assert last.startswith("loaded tiny in ")


def test_unknown_control_calls_are_refused_by_name() -> None:
    served = Served()

    with pytest.raises(NotFound, match=r"fly.*num_used_rows"):
        served.worker.call("fly", [])


def _lasting_tensors() -> int:
    gc.collect()
    # isinstance asks lazy objects, which warn
    tensors = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor)]
    storages = dict(_storage(tensor) for tensor in tensors)
    return sum(storages.values())


def _storage(tensor: torch.Tensor) -> tuple[int, int]:
    """What tells a tensor's memory from others', and its bytes. Packed weights show no storage."""
    if tensor.is_mkldnn:
        return id(tensor), tensor.numel() * tensor.element_size()
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()
