"""Counters and histograms from engine outputs and timings, as Prometheus text.

Names are vLLM's after the prefix ``octavo:``; the label ``model_name`` is on each. Counting is
plain integers in lists, made into samples when ``/metrics`` is read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from octavo.api.frontend.answer import Answer
from octavo.api.frontend.fan_out import LiveRequest
from octavo.contracts.output import EngineOutputs, SchedulerStats

_SHORT_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
_LONG_S = (0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0)
_TOKENS = tuple(float(step * 10**power) for power in range(6) for step in (1, 2, 5))
_STEP_TOKENS = tuple(float(1 << power) for power in range(15))

HISTOGRAMS: dict[str, tuple[str, tuple[float, ...]]] = {
    "time_to_first_token_seconds": ("From arrival to the first token.", _SHORT_S + _LONG_S),
    "inter_token_latency_seconds": ("Between two tokens of one answer.", _SHORT_S + _LONG_S),
    "request_time_per_output_token_seconds": (
        "Mean time per token after the first, of one answer.",
        _SHORT_S + _LONG_S,
    ),
    "e2e_request_latency_seconds": ("From arrival to the end of an answer.", _SHORT_S + _LONG_S),
    "request_queue_time_seconds": ("From arrival to the first step.", _SHORT_S + _LONG_S),
    "request_prefill_time_seconds": ("From the first step to the first token.", _SHORT_S + _LONG_S),
    "request_decode_time_seconds": ("From the first token to the last.", _SHORT_S + _LONG_S),
    "request_inference_time_seconds": ("From the first step to the end.", _SHORT_S + _LONG_S),
    "request_prompt_tokens": ("Prompt tokens of one answer.", _TOKENS),
    "request_generation_tokens": ("Tokens of one answer.", _TOKENS),
    "request_params_n": ("n of a request.", (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)),
    "request_params_max_tokens": ("max_tokens of a request, once settled.", _TOKENS),
    "iteration_tokens_total": ("Tokens that one step computed.", _STEP_TOKENS),
}
"""Name, what is counted, and upper bounds of the buckets."""

COUNTERS: dict[str, str] = {
    "prefix_cache_queries": "Prompt tokens looked up in the prefix cache.",
    "prefix_cache_hits": "Prompt tokens found in the prefix cache.",
    "num_preemptions": "Requests sent back to the queue to free blocks.",
    "prompt_tokens": "Prompt tokens of requests whose first token came.",
    "generation_tokens": "Tokens generated.",
    "requests_refused": "Requests refused because the server is full (429).",
}
"""Name without ``_total``, and what is counted."""

GAUGES: dict[str, str] = {
    "num_requests_running": "Requests in the engine's running batch.",
    "num_requests_waiting": "Requests that wait for their first step or for room.",
    "kv_cache_usage_perc": "Held blocks over all blocks; 1 is full.",
}
"""Name, and what it shows."""

_LABELS = ["model_name"]


@dataclass(slots=True)
class _Histogram:
    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def buckets(self) -> list[tuple[str, float]]:
        seen, cumulative = 0, list[tuple[str, float]]()
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            seen += count
            cumulative.append((bound, seen))
        return cumulative


class Metrics(Collector):
    """Everything ``/metrics`` shows. One per frontend, with its own registry."""

    def __init__(self, model_name: str) -> None:
        self._labels = [model_name]
        self._histograms = {name: _Histogram(bounds) for name, (_, bounds) in HISTOGRAMS.items()}
        self._counters = dict.fromkeys(COUNTERS, 0)
        self._finished: Counter[str] = Counter({"stop": 0, "length": 0, "abort": 0, "error": 0})
        self._stats = SchedulerStats()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        self._token_gap = self._histograms["inter_token_latency_seconds"]

    def render(self) -> bytes:
        """The page in Prometheus text format 0.0.4."""
        return generate_latest(self._registry)

    def refused(self) -> None:
        """A request met a full server."""
        self._counters["requests_refused"] += 1

    def admitted(self, live: LiveRequest) -> None:
        """A request goes to the engine."""
        self._observe("request_params_n", len(live.answers))
        self._observe("request_params_max_tokens", live.prepared.sampling.max_tokens)

    def step(self, outputs: EngineOutputs) -> None:
        """The engine has done a step."""
        stats = outputs.stats
        if stats is None:
            return
        self._stats = stats
        counters = self._counters
        counters["prefix_cache_queries"] += stats.num_prefix_queried_tokens
        counters["prefix_cache_hits"] += stats.num_prefix_hit_tokens
        counters["num_preemptions"] += stats.num_preempted
        if stats.num_scheduled_tokens:
            self._observe("iteration_tokens_total", stats.num_scheduled_tokens)

    def tokens(self, live: LiveRequest, answer: Answer, num_new: int, now: float) -> None:
        """An answer grew; ``answer.last_token_time`` still tells when it grew before."""
        self._counters["generation_tokens"] += num_new
        if answer.last_token_time:
            self._token_gap.observe((now - answer.last_token_time) / num_new, num_new)
            return
        self._counters["prompt_tokens"] += len(live.prepared.prompt_token_ids)
        self._observe("time_to_first_token_seconds", now - live.arrival_time)
        answer.first_token_time = now

    def finished(self, live: LiveRequest, answer: Answer, now: float) -> None:
        """An answer ended."""
        self._finished[answer.finish_reason or "error"] += 1
        self._observe("e2e_request_latency_seconds", now - live.arrival_time)
        if live.scheduled_time:
            self._observe("request_queue_time_seconds", live.scheduled_time - live.arrival_time)
            self._observe("request_inference_time_seconds", now - live.scheduled_time)
        first = answer.first_token_time
        if not first:
            return
        if live.scheduled_time:
            self._observe("request_prefill_time_seconds", first - live.scheduled_time)
        self._observe("request_decode_time_seconds", answer.last_token_time - first)
        self._observe("request_prompt_tokens", len(live.prepared.prompt_token_ids))
        self._observe("request_generation_tokens", answer.num_tokens)
        if answer.num_tokens > 1:
            self._observe(
                "request_time_per_output_token_seconds",
                (answer.last_token_time - first) / (answer.num_tokens - 1),
            )

    def collect(self) -> Iterator[Metric]:
        """Samples of all of them, for the registry."""
        yield from self._collect_gauges()
        for name, count in self._counters.items():
            counter = CounterMetricFamily(f"octavo:{name}", COUNTERS[name], labels=_LABELS)
            counter.add_metric(self._labels, count)
            yield counter
        ends = CounterMetricFamily(
            "octavo:request_success",
            "Answers ended, by reason.",
            labels=[*_LABELS, "finished_reason"],
        )
        for reason, count in self._finished.items():
            ends.add_metric([*self._labels, reason], count)
        yield ends
        for name, histogram in self._histograms.items():
            family = HistogramMetricFamily(f"octavo:{name}", HISTOGRAMS[name][0], labels=_LABELS)
            family.add_metric(self._labels, histogram.buckets(), histogram.total)
            yield family

    def _collect_gauges(self) -> Iterator[Metric]:
        values = {
            "num_requests_running": self._stats.num_running,
            "num_requests_waiting": self._stats.num_waiting,
            "kv_cache_usage_perc": self._stats.kv_usage,
        }
        for name, value in values.items():
            gauge = GaugeMetricFamily(f"octavo:{name}", GAUGES[name], labels=_LABELS)
            gauge.add_metric(self._labels, value)
            yield gauge

    def _observe(self, name: str, value: float) -> None:
        self._histograms[name].observe(value)
