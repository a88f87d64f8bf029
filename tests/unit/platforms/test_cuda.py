from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import pytest

from octavo.kit.env import Environment
from octavo.platforms.base import NotHere, PlatformFacts
from octavo.platforms.cuda import CUDA

GIB = 1 << 30


class _Answer:
    """What ctypes gives for a name: callable, and with a type of result."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self.restype: object = None

    def __call__(self, status: int) -> bytes:
        assert self.restype is ctypes.c_char_p
        return self._text


@dataclass
class FakeLibrary:
    """The driver's management library, with devices of our choosing."""

    uuids: list[str] = field(default_factory=lambda: ["GPU-a", "GPU-b"])
    capability: tuple[int, int] = (9, 0)
    fails: str = ""
    is_open: bool = False
    nvmlErrorString: _Answer = field(default_factory=lambda: _Answer(b"Driver Not Loaded"))  # noqa: N815 (its name)

    def _status(self, name: str) -> int:
        return 9 if name == self.fails else 0

    def nvmlInit_v2(self) -> int:  # noqa: N802 (its name)
        self.is_open = self.fails != "init"
        return self._status("init")

    def nvmlShutdown(self) -> int:  # noqa: N802 (its name)
        self.is_open = False
        return 0

    def nvmlDeviceGetCount_v2(self, count: object) -> int:  # noqa: N802 (its name)
        count._obj.value = len(self.uuids)  # type: ignore[attr-defined]
        return self._status("count")

    def nvmlDeviceGetHandleByIndex_v2(self, index: int, handle: object) -> int:  # noqa: N802
        handle._obj.value = index + 1  # type: ignore[attr-defined]
        return 0 if index < len(self.uuids) else 2

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes, handle: object) -> int:  # noqa: N802
        if uuid.decode() not in self.uuids:
            return 2
        return self.nvmlDeviceGetHandleByIndex_v2(self.uuids.index(uuid.decode()), handle)

    def nvmlDeviceGetName(self, handle: ctypes.c_void_p, name: ctypes.Array, size: int) -> int:  # type: ignore[type-arg]  # noqa: N802
        name.value = f"Device {handle.value}".encode()
        return self._status("name")

    def nvmlDeviceGetMemoryInfo(self, handle: object, memory: object) -> int:  # noqa: N802
        memory._obj.total, memory._obj.free = 80 * GIB, 70 * GIB  # type: ignore[attr-defined]
        return self._status("memory")

    def nvmlDeviceGetCudaComputeCapability(self, handle: object, *parts: object) -> int:  # noqa: N802
        for part, value in zip(parts, self.capability, strict=True):
            part._obj.value = value  # type: ignore[attr-defined]
        return self._status("capability")


def probe(library: FakeLibrary, visible: str | None = None) -> PlatformFacts:
    env = Environment(cache_dir=None, api_key=None, visible_devices=visible)
    try:
        return CUDA(lambda name: library).probe(env)
    finally:
        assert not library.is_open


def test_the_first_device_is_described() -> None:
    facts = probe(FakeLibrary())

    assert (facts.name, facts.device_name, facts.num_devices) == ("cuda", "Device 1 (sm_90)", 2)
    assert (facts.total_memory_bytes, facts.available_memory_bytes) == (80 * GIB, 70 * GIB)
    assert facts.claimable_memory_bytes == 80 * GIB
    assert facts.dtypes == ("bfloat16", "float16", "float32")


def test_old_devices_have_no_bfloat16() -> None:
    assert probe(FakeLibrary(capability=(7, 5))).dtypes == ("float16", "float32")


@pytest.mark.parametrize(
    ("visible", "name", "count"),
    [("1", "Device 2", 1), ("GPU-b, 0", "Device 2", 2), ("0,7,1", "Device 1", 1)],
)
def test_hidden_devices_are_passed_over(visible: str, name: str, count: int) -> None:
    facts = probe(FakeLibrary(), visible)

    assert facts.device_name.startswith(name)
    assert facts.num_devices == count


@pytest.mark.parametrize("visible", ["", "-1", "GPU-c", "9"])
def test_a_machine_may_hide_every_device(visible: str) -> None:
    with pytest.raises(NotHere, match="hides every one"):
        probe(FakeLibrary(), visible)


def test_a_machine_may_have_a_driver_and_no_device() -> None:
    with pytest.raises(NotHere, match="the driver sees no accelerator"):
        probe(FakeLibrary(uuids=[]))


@pytest.mark.parametrize("what", ["init", "count", "name", "memory", "capability"])
def test_what_the_driver_answers_is_told(what: str) -> None:
    with pytest.raises(NotHere, match="the driver answers 'Driver Not Loaded'"):
        probe(FakeLibrary(fails=what))


def test_a_machine_without_a_driver_says_so() -> None:
    def absent(name: str) -> object:
        raise OSError(name)

    with pytest.raises(NotHere, match=r"libnvidia-ml\.so\.1 is absent"):
        CUDA(absent).probe(Environment(cache_dir=None, api_key=None))
