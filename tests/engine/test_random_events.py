"""Random adds, aborts, steps and failures against a plain, slow view of the same engine."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from octavo.contracts.output import FinishReason
from octavo.contracts.request import EngineRequest
from octavo.contracts.sampling import TokenSampling
from octavo.engine.request import Request, RequestStatus
from octavo.testing.fake_config import fake_config, fake_scheduler_config
from octavo.testing.fake_worker import Faults
from tests.engine.harness import Engine

FAULTS = Faults(fail_step=990, not_finite=991, nothing_allowed=992)
MAX_MODEL_LEN = 48
EVENTS_PER_RUN = 500


@dataclass
class Model:
    """What must be true, found by looking at everything."""

    engine: Engine
    requests: dict[str, EngineRequest] = field(default_factory=dict)
    aborted: set[str] = field(default_factory=set)
    computed: set[tuple[str, tuple[int, ...]]] = field(default_factory=set)
    """Salt and tokens of every block that could have been published."""
    steps_as_first: Counter[str] = field(default_factory=Counter)

    def holders(self) -> list[Request]:
        """Every request that may hold blocks: running, or ended and still in flight."""
        core = self.engine.core
        in_flight = {r for flight in core.in_flight for r in flight.requests}
        ended = [r for r in in_flight if r.status is RequestStatus.FINISHED]
        return [*core.table.running, *ended]

    def check_blocks(self) -> None:
        """No block is lost, and one that two requests hold has the same content for both."""
        content: dict[int, tuple[str, tuple[int, ...]]] = {}
        size = self.engine.config.cache.block_size
        for request in self.holders():
            for blocks in request.block_ids:
                assert len(set(blocks)) == len(blocks)
                for place, block in enumerate(blocks):
                    tokens = tuple(request.token_ids[: (place + 1) * size])
                    mine = (request.cache_salt, tokens)
                    is_shared = block in content
                    assert not is_shared or content[block] == mine
                    assert not is_shared or len(tokens) == (place + 1) * size
                    content[block] = mine
        free = self.engine.core.kv.num_free_blocks
        assert 0 not in content
        assert free + len(content) == self.engine.config.cache.num_blocks - 1

    def check_rows(self) -> None:
        rows = [request.row for request in self.holders() if request.row >= 0]
        assert len(set(rows)) == len(rows)
        assert all(request.row >= 0 for request in self.engine.core.table.running)

    def check_progress(self) -> None:
        """Whoever is first in order ends within a number of steps that does not grow.

        Before it starts, those that run may each take a context of steps, more where they lose
        their work; then it needs one itself. Failures run each request a few times more.
        """
        live = self.engine.core.table.live()
        if not live:
            return
        first = min(live, key=lambda request: request.order).request_id
        self.steps_as_first[first] += 1
        slots = self.engine.config.scheduler.max_num_seqs
        assert self.steps_as_first[first] <= MAX_MODEL_LEN * (slots + 2)

    def check_hit(self, request: EngineRequest, num_cached_tokens: int) -> None:
        """A hit was computed before, for the same salt, and leaves a token to compute."""
        size = self.engine.config.cache.block_size
        tokens = request.prompt_token_ids + request.output_token_ids
        assert num_cached_tokens % size == 0
        assert num_cached_tokens < len(tokens)
        if num_cached_tokens:
            prefix = tuple(tokens[:num_cached_tokens])
            assert (request.cache_salt, prefix) in self.computed

    def note_computed(self, requests: list[Request]) -> None:
        size = self.engine.config.cache.block_size
        for request in requests:
            tokens = request.token_ids[: request.num_confirmed_tokens]
            for end in range(size, len(tokens) + 1, size):
                self.computed.add((request.cache_salt, tuple(tokens[:end])))

    def check_answers(self) -> None:
        for request_id, request in self.requests.items():
            heard = self.engine.heard[request_id]
            token_ids, reason = self.expected(request)
            if request_id in self.aborted:
                assert heard.finish_reason in (FinishReason.ABORT, reason)
                assert heard.token_ids == token_ids[: len(heard.token_ids)]
            else:
                assert (heard.token_ids, heard.finish_reason) == (token_ids, reason)
            self.check_prompt_logprobs(request)
            cached = [o.num_cached_tokens for o in heard.outputs if o.num_cached_tokens >= 0]
            assert len(cached) <= 1
            if cached and reason is not FinishReason.ERROR and request_id not in self.aborted:
                assert heard.outputs[0].num_cached_tokens == cached[0]

    def expected(self, request: EngineRequest) -> tuple[list[int], FinishReason]:
        """Alone, and up to the first token that breaks it; the last token is never computed."""
        token_ids, reason = self.engine.expected(request)
        bad = {FAULTS.fail_step, FAULTS.not_finite, FAULTS.nothing_allowed}
        if bad & {*request.prompt_token_ids, *request.output_token_ids}:
            return [], FinishReason.ERROR
        for place, token_id in enumerate(token_ids[:-1]):
            if token_id in bad:
                return token_ids[: place + 1], FinishReason.ERROR
        return token_ids, reason

    def check_prompt_logprobs(self, request: EngineRequest) -> None:
        """Each prompt position is told once, in order, before the first new token."""
        outputs = self.engine.heard[request.request_id].outputs
        told = [
            token
            for output in outputs
            if output.prompt_logprobs is not None
            for token in output.prompt_logprobs.token_ids[:, 0].tolist()
        ]
        if request.sampling.prompt_logprobs is None:
            assert not told
            return
        prompt = request.prompt_token_ids[1:]
        assert told == prompt[: len(told)]
        if any(output.new_token_ids for output in outputs):
            assert told == prompt


def random_engine(rng: random.Random) -> Engine:
    block_size = rng.choice([1, 2, 4])
    longest = -(-MAX_MODEL_LEN // block_size)
    max_num_seqs = rng.choice([1, 2, 4, 8])
    scheduler = fake_scheduler_config(
        max_num_batched_tokens=max_num_seqs + rng.choice([0, 1, 6, 30]),
        max_num_seqs=max_num_seqs,
        max_model_len=MAX_MODEL_LEN,
        policy=rng.choice(["fcfs", "priority"]),
        overlap=rng.random() < 0.6,
    )
    config = fake_config(
        scheduler,
        block_size=block_size,
        num_blocks=1 + longest + rng.choice([0, 3, longest, 3 * longest]),
        prefix_caching=rng.random() < 0.8,
    )
    return Engine(config, FAULTS)


def random_request(rng: random.Random, number: int) -> EngineRequest:
    """Prompts of a few families, so that prefixes meet; some carry tokens that break things."""
    family = random.Random(rng.randrange(3))
    prompt = [family.randrange(20, 60) for _ in range(MAX_MODEL_LEN)]
    prompt = prompt[: rng.choice([1, 2, 5, 8, 13, 16, 30, 40])]
    if rng.random() < 0.5:
        prompt[rng.randrange(len(prompt))] = rng.randrange(20, 60)
    if rng.random() < 0.03:
        prompt[-1] = rng.choice([FAULTS.fail_step, FAULTS.not_finite, FAULTS.nothing_allowed])
    return EngineRequest(
        request_id=f"r{number}",
        prompt_token_ids=prompt,
        sampling=TokenSampling(
            max_tokens=rng.choice([1, 2, 3, 8, 20, 60]),
            min_tokens=rng.choice([0, 0, 3]),
            seed=rng.randrange(4),
            stop_token_ids=list(range(rng.choice([0, 1, 90]))),
            prompt_logprobs=2 if rng.random() < 0.1 else None,
            logprobs=1 if rng.random() < 0.2 else None,
        ),
        arrival_time=number + rng.uniform(-2, 2),
        priority=rng.choice([0, 0, 0, 1, 2]),
        cache_salt=rng.choice(["", "", "a"]),
        output_token_ids=[7, 8, 9][: rng.choice([0, 0, 0, 2])],
    )


def run_events(seed: int) -> None:
    rng = random.Random(seed)
    engine = random_engine(rng)
    model = Model(engine)
    add_rate = rng.choice([0.15, 0.3, 0.5])
    for number in range(EVENTS_PER_RUN):
        event = rng.random()
        if event < add_rate and len(engine.core.table) < 60:
            request = random_request(rng, number)
            model.requests[request.request_id] = request
            engine.add(request)
        elif event > 0.94:
            victim = rng.choice([*model.requests, "nobody"])
            model.aborted.add(victim)
            engine.abort(victim, victim, "nobody")
        elif event > 0.935:
            engine.core.kv.forget_prefixes()
        else:
            step(model)
    while engine.stepper.has_work:
        step(model)
    step(model)
    model.check_answers()
    engine.assert_everything_is_free()


def step(model: Model) -> None:
    before = model.holders()
    model.engine.step()
    model.note_computed([*before, *model.holders()])
    model.check_blocks()
    model.check_rows()
    model.check_progress()
    for output in model.engine.last.outputs if model.engine.last else []:
        if output.num_cached_tokens > 0:
            model.check_hit(model.requests[output.request_id], output.num_cached_tokens)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_every_request_gets_its_own_answer_and_no_block_is_lost(seed):
    run_events(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_100_000_random_events_lose_and_share_nothing(seed):
    run_events(seed)
