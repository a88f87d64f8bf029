from __future__ import annotations

import pytest

from octavo.testing.fake_config import fake_config, fake_scheduler_config
from octavo.testing.fake_worker import FakeWorker
from tests.engine.harness import Engine, request

both = pytest.mark.parametrize("overlap", [False, True])


class Watching(FakeWorker):
    """Remembers each plan as request id to tokens."""

    def __init__(self, init, faults=None):
        super().__init__(init, faults)
        self.plans: list[dict[str, int]] = []
        self._names: dict[int, str] = {}

    def execute(self, plan):
        super().execute(plan)
        self._names.update((new.row, new.request_id) for new in plan.new)
        counts = plan.num_scheduled_tokens.tolist()
        names = [self._names[row] for row in plan.rows.tolist()]
        self.plans.append(dict(zip(names, counts, strict=True)))


def make(overlap: bool = False, num_blocks: int = 257, **scheduler) -> Engine:
    config = fake_config(fake_scheduler_config(overlap=overlap, **scheduler), num_blocks=num_blocks)
    return Engine(config, worker=Watching)


@both
def test_a_short_prompt_overtakes_a_very_long_one(overlap):
    engine = make(overlap, max_num_batched_tokens=32, max_model_len=1024)
    engine.add(request("long", range(900), 2))
    engine.add(request("short", range(900, 907), 2, arrival_time=1.0))

    engine.run()

    assert engine.worker.plans[0] == {"long": 24, "short": 7}


def test_a_long_prompt_has_the_whole_step_when_no_short_one_waits():
    engine = make(max_num_batched_tokens=32, max_model_len=1024)
    engine.add(request("long", range(900), 2))

    engine.run()

    assert engine.worker.plans[0] == {"long": 32}


def test_answers_go_on_while_a_long_prompt_is_computed():
    engine = make(max_num_batched_tokens=16, max_model_len=1024)
    engine.add(request("answer", [1, 2], 12))
    engine.step()
    engine.add(request("long", range(5, 205), 2))

    engine.run()

    assert all(plan["answer"] == 1 for plan in engine.worker.plans[1:12])
    assert engine.worker.plans[1]["long"] == 15


def test_a_short_prompt_passes_a_long_one_that_waits_for_tokens():
    engine = make(max_num_batched_tokens=16, max_model_len=1024)
    engine.add(request("first", range(300), 2))
    engine.add(request("second", range(300, 600), 2, arrival_time=1.0))
    engine.add(request("short", range(600, 604), 2, arrival_time=2.0))

    engine.step()

    assert engine.worker.plans[0] == {"first": 12, "short": 4}


def test_nobody_passes_a_request_that_waits_for_blocks():
    engine = make(num_blocks=31, max_model_len=120, max_num_batched_tokens=256)
    engine.add(request("running", range(60), 40))
    engine.step()
    engine.add(request("big", range(100, 200), 4, arrival_time=1.0))
    engine.add(request("small", range(200, 204), 4, arrival_time=2.0))

    engine.run()

    order = list(dict.fromkeys(name for plan in engine.worker.plans for name in plan))
    assert order == ["running", "big", "small"]


def test_nobody_passes_a_request_that_waits_for_a_place_in_the_step():
    engine = make(max_num_seqs=2)
    for i in range(4):
        engine.add(request(f"r{i}", [i + 1], 5, arrival_time=float(i)))

    engine.run()

    assert all(len(plan) <= 2 for plan in engine.worker.plans)
    order = list(dict.fromkeys(name for plan in engine.worker.plans for name in plan))
    assert order == ["r0", "r1", "r2", "r3"]


@both
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_waiting_requests_start_by_priority_then_arrival(policy, overlap):
    engine = make(overlap, max_num_seqs=1, policy=policy)
    for name, priority, arrival in (("c", 1, 0.0), ("b", 0, 3.0), ("a", 0, 2.0), ("z", -1, 9.0)):
        engine.add(request(name, [5, 6], 3, priority=priority, arrival_time=arrival))

    engine.run()

    order = list(dict.fromkeys(name for plan in engine.worker.plans for name in plan))
    assert order == ["z", "a", "b", "c"]


@both
@pytest.mark.parametrize(("policy", "preempted"), [("fcfs", 0), ("priority", 1)])
def test_only_the_priority_policy_takes_the_place_of_a_running_request(policy, preempted, overlap):
    engine = make(overlap, max_num_seqs=2, policy=policy)
    requests = [
        request("low", [1], 20, priority=5),
        request("middle", [2], 20, priority=3),
        request("high", [3], 4, priority=0, arrival_time=9.0),
    ]
    engine.add(requests[0])
    engine.add(requests[1])
    for _ in range(5):
        engine.step()
    engine.add(requests[2])

    engine.run()

    assert engine.core.table.num_preempted == preempted
    last_low = max(n for n, plan in enumerate(engine.worker.plans) if "low" in plan)
    last_high = max(n for n, plan in enumerate(engine.worker.plans) if "high" in plan)
    assert (last_high < last_low) == bool(preempted)
    engine.assert_answers(*requests)


@both
def test_the_priority_policy_takes_blocks_from_the_lowest_first(overlap):
    engine = make(overlap, num_blocks=31, max_model_len=120, policy="priority")
    engine.add(request("lowest", range(10, 40), 50, priority=9))
    engine.add(request("low", range(50, 80), 50, priority=5))
    for _ in range(4):
        engine.step()
    engine.add(request("high", range(100, 160), 4, priority=0))
    engine.step()
    engine.step()

    waiting = [name for name in ("lowest", "low", "high") if name not in running(engine)]

    assert waiting == ["lowest"]


@both
def test_equal_priority_is_not_preempted(overlap):
    engine = make(overlap, max_num_seqs=1, policy="priority")
    engine.add(request("first", [1], 10, arrival_time=5.0))
    engine.step()
    engine.add(request("earlier", [2], 4, arrival_time=1.0))

    engine.run()

    assert engine.core.table.num_preempted == 0


def test_nothing_is_preempted_for_a_request_that_would_not_fit_anyway():
    engine = make(num_blocks=31, max_model_len=120, policy="priority")
    engine.add(request("strong", range(10, 70), 50, priority=0))
    engine.add(request("weak", range(100, 110), 40, priority=5))
    engine.step()
    engine.add(request("big", range(200, 300), 4, priority=1))

    engine.step()

    assert running(engine) == {"strong", "weak"}


@both
def test_for_want_of_blocks_the_lowest_priority_goes_first(overlap):
    engine = make(overlap, num_blocks=17, max_model_len=64)
    requests = [
        request("low", range(10, 20), 40, priority=7),
        request("high", range(30, 40), 40, priority=0),
    ]
    for each in requests:
        engine.add(each)

    engine.run()

    assert engine.core.table.num_preempted > 0
    high = [n for n, plan in enumerate(engine.worker.plans) if "high" in plan]
    assert high == list(range(high[0], high[0] + 40))
    engine.assert_answers(*requests)


@both
def test_the_oldest_finishes_though_it_would_lose_least(overlap):
    """Bigger, later requests keep coming; each would rather take its blocks than wait."""
    engine = make(overlap, num_blocks=17, max_model_len=60, max_num_batched_tokens=64)
    oldest = request("oldest", range(1, 5), 40)
    engine.add(oldest)
    for number in range(400):
        if len(engine.core.table) < 4:
            prompt = range(100 + number % 50, 120 + number % 50)
            engine.add(request(f"r{number}", prompt, 30, arrival_time=1.0 + number))
        engine.step()
        if engine.heard["oldest"].finish_reason is not None:
            break

    assert engine.num_steps <= 50
    engine.assert_answers(oldest)


@both
def test_a_prompt_is_not_started_before_all_its_blocks_are_free(overlap):
    engine = make(overlap, num_blocks=31, max_model_len=120, max_num_batched_tokens=8)
    engine.add(request("a", range(80), 4))
    engine.add(request("b", range(100, 180), 4))

    engine.run()

    assert engine.core.table.num_preempted == 0
    engine.assert_answers(request("a", range(80), 4), request("b", range(100, 180), 4))


@both
def test_statistics_count_each_thing_once(overlap):
    engine = make(overlap)
    totals = {"queried": 0, "hit": 0, "scheduled": 0}
    for i in range(2):
        engine.add(request(f"r{i}", range(1, 21), 3))
        while engine.stepper.has_work:
            engine.step()
            if engine.last is not None:
                totals["queried"] += engine.last.stats.num_prefix_queried_tokens
                totals["hit"] += engine.last.stats.num_prefix_hit_tokens
                totals["scheduled"] += engine.last.stats.num_scheduled_tokens

    assert totals == {"queried": 40, "hit": 16, "scheduled": 22 + 6}
    assert engine.last.stats.num_running == 0
    assert engine.last.stats.kv_usage == 0


def running(engine: Engine) -> set[str]:
    return {each.request_id for each in engine.core.table.running}


@both
def test_answers_are_served_before_prompts_that_started_earlier(overlap):
    engine = make(overlap, max_num_batched_tokens=8, max_num_seqs=4, max_model_len=1024)
    engine.add(request("long", range(10, 200), 2))
    for i in range(3):
        engine.add(request(f"r{i}", [i + 1], 6, arrival_time=1.0 + i))

    engine.run()

    for i in range(3):
        steps = [n for n, plan in enumerate(engine.worker.plans) if f"r{i}" in plan]
        assert steps == list(range(steps[0], steps[0] + 6))


def test_short_prompts_keep_their_share_beside_many_answers():
    engine = make(max_num_batched_tokens=16, max_num_seqs=16, max_model_len=1024)
    for i in range(12):
        engine.add(request(f"a{i}", [i + 1], 30))
    engine.step()
    engine.add(request("long", range(100, 300), 2, arrival_time=1.0))
    engine.add(request("short", [90, 91], 2, arrival_time=2.0))

    engine.step()

    assert engine.worker.plans[1]["long"] == 3
    assert engine.worker.plans[1]["short"] == 1


def test_long_prompts_wait_in_line_and_are_not_looked_at_one_by_one():
    engine = make(max_num_batched_tokens=16, max_model_len=1024)
    for i in range(5):
        engine.add(request(f"l{i}", range(100 * i, 100 * i + 90), 2, arrival_time=float(i)))
    engine.add(request("s", [7], 2, arrival_time=9.0))
    engine.add(request("l9", range(700, 790), 2, arrival_time=10.0))

    engine.step()

    assert engine.worker.plans[0] == {"l0": 12, "s": 1}
