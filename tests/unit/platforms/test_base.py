from __future__ import annotations

import pytest

from octavo.kit.env import Environment
from octavo.kit.errors import Unsupported
from octavo.platforms.base import in_order, present_platforms, probe_platform

NOTHING_VISIBLE = Environment(cache_dir=None, api_key=None, visible_devices="")


def test_a_platform_is_probed_by_name() -> None:
    assert probe_platform("cpu", NOTHING_VISIBLE).name == "cpu"


def test_a_platform_that_nobody_knows_is_refused_with_those_that_are() -> None:
    with pytest.raises(Unsupported, match="device='tpu': octavo knows cpu, cuda"):
        probe_platform("tpu", NOTHING_VISIBLE)


def test_a_device_that_is_not_here_is_refused_with_a_reason() -> None:
    with pytest.raises(Unsupported, match=r"device='cuda': .* Use --device cpu"):
        probe_platform("cuda", NOTHING_VISIBLE)


def test_what_is_absent_says_why() -> None:
    present, absent = present_platforms(NOTHING_VISIBLE)

    assert [facts.name for facts in present] == ["cpu"]
    assert [reason.split(":")[0] for reason in absent] == ["cuda"]


def test_the_processor_is_asked_last() -> None:
    assert in_order(["cpu", "cuda", "apple"]) == ["apple", "cuda", "cpu"]
