from __future__ import annotations

import pytest
import torch

from octavo.contracts.kv import KVCacheConfig, KVGroup, KVTensor
from octavo.device.memory import KVCaches, Memory, measure
from tests.unit.device.tiny import TinyModel, tiny_config

CPU = torch.device("cpu")


def plan(**changes: object) -> KVCacheConfig:
    whole: dict[str, object] = {
        "num_blocks": 5,
        "groups": [KVGroup("full", [0], 4), KVGroup("window", [1], 4, 5)],
        "tensors": [KVTensor([0, 1], 32)],
    }
    return KVCacheConfig(**(whole | changes))


def test_memory_counts_what_it_hands_out_by_region() -> None:
    memory = Memory(CPU)

    memory.tensor("rows", (3, 5), torch.int32)
    memory.staged("step", (7,), torch.int64)
    memory.tensor("rows", (2,), torch.int32)

    assert memory.regions == {"rows": 68, "step": 56}
    assert memory.allocated_bytes == 124


def test_closed_memory_hands_out_nothing() -> None:
    memory = Memory(CPU)
    memory.close()

    with pytest.raises(AssertionError, match="rows: memory is handed out before ready only"):
        memory.tensor("rows", (1,), torch.int32)


def test_a_staged_buffer_shows_the_device_what_the_host_wrote() -> None:
    staged = Memory(CPU).staged("step", (4,), torch.int64)

    staged.turn()[:3] = [7, 8, 9]

    assert staged.send(3).tolist() == [7, 8, 9]


def test_layers_of_one_tensor_see_the_same_blocks_and_follow_their_own_group() -> None:
    memory = Memory(CPU)

    caches = KVCaches.allocate(plan(), TinyModel().attention_layers(), memory)

    assert caches.group_of == [0, 1]
    assert [tuple(layer.shape) for layer in caches.layers] == [(5, 4), (5, 4)]
    caches.layers[0][2, 3] = 42
    assert caches.layers[1][2, 3] == 42
    assert memory.regions == {"kv": 160}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tensors": [KVTensor([0], 32)]}, r"no tensor for layers \[1\]"),
        ({"tensors": [KVTensor([0, 1], 64)]}, "layer 0 needs 32 bytes a block, its tensor has 64"),
        ({"groups": [KVGroup("full", [0], 4)]}, "no group for layer 1"),
    ],
)
def test_a_plan_that_does_not_fit_the_model_names_the_layer(
    changes: dict[str, object], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        KVCaches.allocate(plan(**changes), TinyModel().attention_layers(), Memory(CPU))


def test_tied_weights_are_counted_once() -> None:
    weight = torch.zeros(10, 10)

    report = measure(tiny_config(), [weight, weight.t(), weight[:3], torch.zeros(5)])

    assert report.weights_bytes == 420
    assert 0 < report.available_for_kv_bytes < report.total_bytes
