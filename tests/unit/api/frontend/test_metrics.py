"""The page behind /metrics."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

from octavo.api.frontend.metrics import COUNTERS, GAUGES, HISTOGRAMS, Metrics
from octavo.api.frontend.params import SamplingParams
from octavo.contracts.output import EngineOutputs, FinishReason, SchedulerStats
from octavo.kit.errors import Overloaded
from tests.unit.api.frontend.support import Bench, bench, text_output

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(page: bytes) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("model_name") == "fake"
            found[sample.name, tuple(labels.items())] = sample.value
    return found


def value(at: Bench, name: str, **labels: str) -> float:
    return samples(at.llm.metrics.render())[f"octavo:{name}", tuple(labels.items())]


def test_every_metric_is_on_the_page_before_the_first_request() -> None:
    names = {name for name, _ in samples(Metrics("fake").render())}

    assert {f"octavo:{name}" for name in GAUGES} <= names
    assert {f"octavo:{name}_total" for name in COUNTERS} <= names
    for name in HISTOGRAMS:
        assert {f"octavo:{name}{part}" for part in ("_bucket", "_count", "_sum")} <= names
    assert "octavo:request_success_total" in names


def test_the_names_are_those_that_dashboards_of_vllm_read() -> None:
    assert {
        "num_requests_running", "num_requests_waiting", "kv_cache_usage_perc",
        "prefix_cache_queries", "prefix_cache_hits", "num_preemptions", "prompt_tokens",
        "generation_tokens", "time_to_first_token_seconds", "inter_token_latency_seconds",
        "request_time_per_output_token_seconds", "request_queue_time_seconds",
        "e2e_request_latency_seconds", "request_prompt_tokens", "request_generation_tokens",
        "iteration_tokens_total",
    } <= {*GAUGES, *COUNTERS, *HISTOGRAMS}  # fmt: skip


def test_a_request_leaves_its_counts_and_times() -> None:
    async def scenario() -> None:
        async with bench() as at:
            stream = await at.llm.add("Hi", SamplingParams(max_tokens=5), request_id="a")
            request = await at.engine.next_request()
            start = request.arrival_time
            for number, (text, finish) in enumerate(
                [("a", None), ("b", None), ("c", FinishReason.LENGTH)]
            ):
                output = text_output(
                    request.request_id,
                    text,
                    finish,
                    scheduled_time=start + 0.5 if not number else 0,
                )
                at.engine.tell(EngineOutputs(0, 1, [output], timestamp=start + 1 + number * 0.1))
            await stream.final()

            assert value(at, "prompt_tokens_total") == 3
            assert value(at, "generation_tokens_total") == 3
            assert value(at, "request_success_total", finished_reason="length") == 1
            assert value(at, "request_success_total", finished_reason="stop") == 0
            assert abs(value(at, "time_to_first_token_seconds_sum") - 1.0) < 1e-6
            assert abs(value(at, "request_queue_time_seconds_sum") - 0.5) < 1e-6
            assert abs(value(at, "request_prefill_time_seconds_sum") - 0.5) < 1e-6
            assert abs(value(at, "inter_token_latency_seconds_sum") - 0.2) < 1e-6
            assert value(at, "inter_token_latency_seconds_count") == 2
            assert value(at, "inter_token_latency_seconds_bucket", le="0.075") == 0
            assert value(at, "inter_token_latency_seconds_bucket", le="0.15") == 2
            assert abs(value(at, "e2e_request_latency_seconds_sum") - 1.2) < 1e-6
            assert abs(value(at, "request_time_per_output_token_seconds_sum") - 0.1) < 1e-6
            assert value(at, "request_prompt_tokens_sum") == 3
            assert value(at, "request_generation_tokens_sum") == 3
            assert value(at, "request_params_max_tokens_sum") == 5

    asyncio.run(scenario())


def test_the_engines_state_is_shown_and_its_differences_add_up() -> None:
    async def scenario() -> None:
        async with bench() as at:
            for running in (3, 2):
                at.engine.say(
                    stats=SchedulerStats(
                        num_running=running,
                        num_waiting=1,
                        kv_usage=0.25,
                        num_prefix_queried_tokens=10,
                        num_prefix_hit_tokens=4,
                        num_preempted=1,
                        num_scheduled_tokens=7,
                    )
                )
            await at.settle()

            assert value(at, "num_requests_running") == 2
            assert value(at, "num_requests_waiting") == 1
            assert value(at, "kv_cache_usage_perc") == 0.25
            assert value(at, "prefix_cache_queries_total") == 20
            assert value(at, "prefix_cache_hits_total") == 8
            assert value(at, "num_preemptions_total") == 2
            assert value(at, "iteration_tokens_total_sum") == 14
            assert value(at, "iteration_tokens_total_count") == 2

    asyncio.run(scenario())


def test_refusals_of_a_full_server_and_aborts_are_counted() -> None:
    async def scenario() -> None:
        async with bench() as at:
            streams = [await at.llm.add("1", SamplingParams(), request_id="a") for _ in range(8)]
            with pytest.raises(Overloaded):
                await at.llm.add("1", SamplingParams(), request_id="a")
            for stream in streams:
                await stream.aclose()

            assert value(at, "requests_refused_total") == 1
            assert value(at, "request_success_total", finished_reason="abort") == 8

    asyncio.run(scenario())
