"""Choosing an attention backend, and the reasons of refusals."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import ClassVar

import pytest
import torch

from octavo.device.attention.backends.torch_paged import TorchPaged
from octavo.device.attention.interface import AttentionSpec
from octavo.device.attention.select import BackendChooser, refusal
from octavo.kit.errors import Unsupported

SPEC = AttentionSpec(num_heads=4, num_kv_heads=2, head_size=16, dtype=torch.float32, scale=0.25)


def test_equal_specs_share_a_backend() -> None:
    chooser = BackendChooser("torch_paged", exact=False)

    assert chooser.backend_for(SPEC) is chooser.backend_for(replace(SPEC))
    assert chooser.backend_for(replace(SPEC, sliding_window=8)) is not chooser.backend_for(SPEC)


def test_a_backend_is_refused_for_a_fact_it_does_not_read() -> None:
    class Narrow(TorchPaged):
        understands: ClassVar[frozenset[str]] = TorchPaged.understands - {"sliding_window"}

    assert refusal(Narrow, SPEC, exact=False) is None
    reason = refusal(Narrow, replace(SPEC, sliding_window=8), exact=False)
    assert reason == "does not know sliding_window=8"


def test_another_backend_serves_where_the_preferred_one_refuses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)

    backend = BackendChooser("torch_paged", exact=False).backend_for(replace(SPEC, causal=False))

    assert backend.name == "torch_reference"
    assert "instead of torch_paged (does not know causal=False)" in caplog.text


def test_a_spec_that_nobody_serves_gets_every_reason() -> None:
    with pytest.raises(Unsupported, match=r"torch_paged \(4 heads .* torch_reference \(4 heads"):
        BackendChooser("torch_paged", exact=False).backend_for(replace(SPEC, num_kv_heads=3))


def test_exact_numerics_refuse_a_backend_that_is_not() -> None:
    with pytest.raises(Unsupported, match="bits depend on the batch"):
        BackendChooser("torch_reference", exact=True).backend_for(replace(SPEC, causal=False))


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(Unsupported, match=r"attention_backend='paged'.*torch_paged"):
        BackendChooser("paged", exact=False).backend_for(SPEC)
