"""Benchmarks that load a model, on a tiny one."""

from __future__ import annotations

import json

import pytest

from octavo.entrypoints.cli.main import main

SMALL = ["--threads", "1", "--max-num-seqs", "4", "--json"]


def bench(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, float]:
    assert main(["bench", *words]) == 0
    result: dict[str, float] = json.loads(capsys.readouterr().out)
    return result


def test_throughput_counts_every_token(tiny_model: str, capsys: pytest.CaptureFixture[str]) -> None:
    load = ["--num-prompts", "5", "--input-len", "7", "--output-len", "3"]

    result = bench(capsys, "throughput", tiny_model, *load, *SMALL)

    assert result["total_input_tokens"] == 35
    assert result["total_output_tokens"] == 15
    assert result["tokens_per_s"] == pytest.approx(50 / result["elapsed_s"])


def test_latency_is_a_distribution_over_batches(
    tiny_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    load = ["--batch-size", "2", "--num-iters", "3", "--input-len", "5", "--output-len", "2"]

    result = bench(capsys, "latency", tiny_model, *load, *SMALL)

    assert 0 < result["median_latency_ms"] <= result["p99_latency_ms"]


@pytest.mark.slow
def test_phases_of_a_start_add_up_to_the_whole(
    tiny_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = bench(capsys, "startup", tiny_model, "--num-iters", "1", *SMALL)

    phases = [
        value
        for name, value in result.items()
        if name.endswith("_s") and not name.endswith("total_s")
    ]
    assert len(phases) >= 4
    assert sum(phases) == pytest.approx(result["total_s"])
    assert result["first_token_s"] > 0


@pytest.mark.slow
def test_a_start_that_fails_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "startup", "/no/such/model", "--num-iters", "1"]) == 2
    assert "/no/such/model" in capsys.readouterr().err
