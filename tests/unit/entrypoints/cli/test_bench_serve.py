from __future__ import annotations

import json

import pytest

from octavo.entrypoints.cli.bench_serve import Timing, figures
from octavo.entrypoints.cli.main import main
from octavo.kit.errors import Overloaded
from octavo.testing.fake_llm import FakeLLM

LOAD = ["--num-prompts", "6", "--input-len", "5", "--output-len", "8", "--json"]


def bench(url: str, capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, float]:
    assert main(["bench", "serve", "--url", url, *LOAD, *flags]) == 0
    result: dict[str, float] = json.loads(capsys.readouterr().out)
    return result


def test_figures_are_rates_and_distributions_of_what_succeeded() -> None:
    timings = [
        Timing(10.0, times=[11.0, 11.5, 12.0], num_prompt_tokens=4, num_tokens=3, ended=12.5),
        Timing(10.0, error="500", ended=10.1),
    ]

    result = figures(timings, elapsed_s=2.0)

    assert (result["completed"], result["failed"]) == (1, 1)
    assert result["output_throughput_per_s"] == 1.5
    assert result["total_token_throughput_per_s"] == 3.5
    assert result["mean_ttft_ms"] == 1000
    assert result["mean_tpot_ms"] == 500
    assert result["mean_itl_ms"] == 500
    assert result["mean_e2el_ms"] == 2500


def test_a_server_is_measured(url: str, llm: FakeLLM, capsys: pytest.CaptureFixture[str]) -> None:
    llm.step_s = 0.005

    result = bench(url, capsys)

    assert (result["completed"], result["failed"]) == (6, 0)
    assert result["total_input_tokens"] == 30
    assert result["total_output_tokens"] == 48
    assert result["mean_ttft_ms"] >= 5
    assert result["mean_tpot_ms"] >= 5
    assert len(set(llm.prompts)) == 7  # six and a warm-up, none alike
    assert llm.params[-1].ignore_eos


def test_concurrency_is_bounded_at_this_side(
    url: str, llm: FakeLLM, capsys: pytest.CaptureFixture[str]
) -> None:
    llm.step_s = 0.002

    bench(url, capsys, "--max-concurrency", "2")

    assert llm.most_live == 2


def test_arrivals_keep_the_rate(url: str, llm: FakeLLM, capsys: pytest.CaptureFixture[str]) -> None:
    result = bench(url, capsys, "--request-rate", "40", "--seed", "3")

    assert 0.02 < result["duration_s"] < 2


def test_a_server_that_refuses_everything_is_an_error(
    url: str, llm: FakeLLM, capsys: pytest.CaptureFixture[str]
) -> None:
    llm.refusal = Overloaded("full", retry_after_s=1)

    assert main(["bench", "serve", "--url", url, *LOAD]) == 1

    captured = capsys.readouterr()
    assert "every request failed" in captured.err
    assert json.loads(captured.out)["failed"] == 6


@pytest.mark.parametrize("flags", [["--num-prompts", "0"], ["--request-rate", "0"]])
def test_a_load_of_nothing_is_refused(
    flags: list[str], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "serve", "--url", url, *flags]) == 2
    assert "must be above 0" in capsys.readouterr().err


def test_bench_lists_its_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--help"]) == 0
    assert "startup" in capsys.readouterr().out
    assert main(["bench", "thruput"]) == 2
    assert "throughput" in capsys.readouterr().err
