from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.entrypoints.cli.bench_report import (
    ReportArgs,
    distribution,
    percentile,
    random_prompts,
    require_positive,
)
from octavo.kit.errors import ConfigError


@given(st.lists(st.floats(0, 1e6), min_size=2))
def test_percentiles_agree_with_the_standard_library(values: list[float]) -> None:
    ordered = sorted(values)
    cuts = statistics.quantiles(ordered, n=100, method="inclusive")

    for percent in (1, 50, 90, 99):
        assert percentile(ordered, percent) == pytest.approx(cuts[percent - 1])


def test_a_distribution_is_in_milliseconds() -> None:
    figures = distribution("ttft", [0.3, 0.1, 0.2])

    assert figures["mean_ttft_ms"] == pytest.approx(200)
    assert figures["median_ttft_ms"] == pytest.approx(200)
    assert figures["p99_ttft_ms"] == pytest.approx(298)
    assert distribution("ttft", []) == {}


def test_prompts_are_repeatable_and_within_the_vocabulary() -> None:
    prompts = random_prompts(5, 20, vocab_size=50, seed=1)

    assert prompts == random_prompts(5, 20, vocab_size=50, seed=1)
    assert prompts != random_prompts(5, 20, vocab_size=50, seed=2)
    assert {len(prompt) for prompt in prompts} == {20}
    assert 0 <= min(map(min, prompts)) <= max(map(max, prompts)) < 50


def test_a_report_is_a_table_and_then_one_json_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"

    ReportArgs(output_json=str(path)).report("x", {"tokens_per_s": 2.0, "requests": 3})

    *table, last = capsys.readouterr().out.strip().splitlines()
    assert any(line.split() == ["tokens_per_s", "2.00"] for line in table)
    figures = json.loads(last)
    assert figures["benchmark"] == "x"
    assert figures["requests"] == 3
    assert json.loads(path.read_text()) == figures


def test_a_report_can_be_json_alone(capsys: pytest.CaptureFixture[str]) -> None:
    ReportArgs(json=True).report("x", {"requests": 3})

    assert json.loads(capsys.readouterr().out)["requests"] == 3


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    args = ReportArgs(output_json=str(tmp_path / "no" / "x"))

    with pytest.raises(ConfigError, match="cannot be written"):
        args.report("x", {"requests": 3})


@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_what_must_be_positive_is(value: float) -> None:
    require_positive(input_len=1, request_rate=float("inf"), max_concurrency=None)

    with pytest.raises(ConfigError, match="--input-len"):
        require_positive(input_len=value)
