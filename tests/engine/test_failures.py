from __future__ import annotations

import pytest

from octavo.contracts.output import FinishReason
from octavo.engine.executor.base import WorkerFailed
from octavo.testing.fake_config import fake_config, fake_scheduler_config
from octavo.testing.fake_worker import FakeFault, FakeWorker, Faults
from octavo.testing.local_executor import LocalExecutor
from tests.engine.harness import Engine, request

FAULTS = Faults(fail_step=990, not_finite=991, nothing_allowed=992)

both = pytest.mark.parametrize("overlap", [False, True])


def make(overlap: bool, **scheduler) -> Engine:
    return Engine(fake_config(fake_scheduler_config(overlap=overlap, **scheduler)), FAULTS)


@both
@pytest.mark.parametrize("poisoned", [[0], [5], [7], [1, 2], [0, 3, 6], list(range(8))])
def test_only_the_request_that_breaks_its_step_ends_with_an_error(overlap, poisoned):
    engine = make(overlap)
    requests = [
        request(f"r{i}", [i + 1, 990] if i in poisoned else [i + 1, 5], 6) for i in range(8)
    ]
    for each in requests:
        engine.add(each)

    engine.run()

    engine.assert_answers(*(r for i, r in enumerate(requests) if i not in poisoned))
    for i in poisoned:
        heard = engine.heard[f"r{i}"]
        assert heard.finish_reason is FinishReason.ERROR
        assert "token 990 fails the step" in heard.outputs[-1].error.message
    engine.assert_everything_is_free()
    assert engine.num_failures <= len(poisoned) * 4 + 1


@both
def test_who_has_ended_by_then_is_not_put_on_others(overlap):
    """The first ends with a stop token that breaks the step which computes it for nothing."""
    engine = make(overlap)
    poison = Faults(fail_step=first_token([1, 2, 3]))
    engine = Engine(engine.config, poison)
    dying = request("dying", [1, 2, 3], 10, stop_token_ids=[poison.fail_step])
    innocent = request("innocent", [7, 8], 10)
    engine.add(dying)
    engine.add(innocent)

    engine.run()

    engine.assert_answers(dying, innocent)
    assert engine.num_failures == int(overlap)


@both
def test_requests_that_fail_only_in_company_still_finish(overlap):
    class Crowded(FakeWorker):
        def execute(self, plan):
            if len(plan.rows) > 2:
                self._has_failed = True
                raise FakeFault("three are too many")
            super().execute(plan)

    engine = Engine(fake_config(fake_scheduler_config(overlap=overlap)), worker=Crowded)
    requests = [request(f"r{i}", [i + 1, 5], 6) for i in range(7)]
    for each in requests:
        engine.add(each)

    engine.run()

    engine.assert_answers(*requests)
    engine.assert_everything_is_free()


@both
def test_a_failed_step_keeps_what_was_published_before_it(overlap):
    engine = make(overlap)
    engine.add(request("long", range(1, 41), 1))
    engine.run()
    before = engine.worker.num_computed_tokens
    engine.add(request("poison", [*range(1, 41), 990], 4))
    engine.add(request("other", [*range(1, 41), 7], 4))

    engine.run()

    assert engine.heard["other"].finish_reason is FinishReason.LENGTH
    assert engine.worker.num_computed_tokens - before < 30


@both
@pytest.mark.parametrize(
    ("token", "status", "words"),
    [(991, 500, "not finite"), (992, 400, "exclude every token")],
)
def test_a_bad_row_ends_alone_with_its_cause_and_publishes_nothing(overlap, token, status, words):
    engine = make(overlap)
    bad = request("bad", [token, *range(1, 20)], 10)
    good = request("good", range(50, 70), 10)
    engine.add(bad)
    engine.add(good)
    engine.run()
    engine.add(request("again", [token, *range(1, 20)], 10))

    engine.run()

    engine.assert_answers(good)
    for name in ("bad", "again"):
        [output] = engine.heard[name].outputs
        assert output.finish_reason is FinishReason.ERROR
        assert output.error.status == status
        assert words in output.error.message
    assert engine.core.kv.num_hit_tokens == 0
    assert engine.num_failures == 0
    engine.assert_everything_is_free()


def test_one_group_of_suspects_runs_without_the_other():
    seen = []

    class Watching(FakeWorker):
        def execute(self, plan):
            super().execute(plan)
            seen.append({new.request_id for new in plan.new})

    config = fake_config(fake_scheduler_config(overlap=False))
    engine = Engine(config, FAULTS, worker=Watching)
    for i in range(4):
        engine.add(request(f"r{i}", [i + 1, 990] if i == 3 else [i + 1, 5], 3))

    engine.run()

    assert seen[:3] == [{"r0", "r1"}, {"r2"}, {"r0", "r1", "r2"}]


def test_a_worker_that_gives_no_token_ends_the_request_and_not_the_engine():
    class Silent(FakeWorker):
        def sample(self, sample):
            sampled = super().sample(sample)
            sampled.num_tokens[:] = 0
            return sampled

    engine = Engine(fake_config(fake_scheduler_config(overlap=False)), worker=Silent)
    engine.add(request("r", [1, 2, 3]))

    engine.run()

    assert "gave no token" in engine.heard["r"].outputs[-1].error.message
    engine.assert_everything_is_free()


def test_a_worker_that_is_lost_while_batches_are_drained_ends_the_engine():
    class Dying(FakeWorker):
        def execute(self, plan):
            """Nothing is computed any more."""

        def sample(self, sample):
            if sample.step == 2:
                raise WorkerFailed("rank 0 is gone", is_fatal=True)
            raise FakeFault("first")

    engine = Engine(fake_config(), worker=Dying)
    engine.add(request("r", [1, 2, 3]))

    with pytest.raises(WorkerFailed, match="rank 0 is gone"):
        engine.run()


def first_token(prompt: list[int]) -> int:
    engine = Engine(fake_config())
    return engine.expected(request("r", prompt, 1))[0][0]


def test_the_local_executor_runs_nothing_before_a_result_is_asked_for():
    engine = make(overlap=True)
    engine.add(request("r", [1, 2, 3]))

    engine.core.begin()

    assert engine.worker.num_computed_tokens == 0
    assert isinstance(engine.core.executor, LocalExecutor)
