"""NVIDIA accelerators, as the management library of the driver describes them.

The library is asked through ctypes: it takes no device context, so a process that only decides
neither holds device memory nor spoils a later fork, and no torch is needed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from octavo.kit.env import Environment
from octavo.platforms.base import NotHere, PlatformFacts
from octavo.platforms.cpu import PLATFORM as CPU

_LIBRARY = "libnvidia-ml.so.1"
_BFLOAT16_CAPABILITY = (8, 0)


class _Memory(ctypes.Structure):
    _fields_ = [
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


@dataclass(frozen=True, slots=True)
class CUDA:
    """``open_library`` returns the management library, or raises OSError where there is none."""

    open_library: Callable[[str], Any] = ctypes.CDLL  # Any: functions appear by name

    def probe(self, env: Environment) -> PlatformFacts:
        """Ask the driver about the first visible accelerator.

        Raises:
            NotHere: there is no driver, or no accelerator is visible.
        """
        try:
            library = self.open_library(_LIBRARY)
        except OSError as error:
            raise NotHere(f"the NVIDIA driver is not installed ({_LIBRARY} is absent)") from error
        _check(library, library.nvmlInit_v2(), "starting the NVIDIA management library")
        try:
            return _describe(library, env)
        finally:
            library.nvmlShutdown()


def _describe(library: Any, env: Environment) -> PlatformFacts:  # Any: as above
    handles = _visible(library, env.visible_devices)
    if not handles:
        reason = f"CUDA_VISIBLE_DEVICES={env.visible_devices!r} hides every one"
        raise NotHere("the driver sees no accelerator" if env.visible_devices is None else reason)
    handle = handles[0]
    name = ctypes.create_string_buffer(96)
    _check(library, library.nvmlDeviceGetName(handle, name, 96), "asking for the name")
    memory = _Memory()
    _check(
        library,
        library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)),
        "asking for the memory",
    )
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(
        library,
        library.nvmlDeviceGetCudaComputeCapability(
            handle, ctypes.byref(major), ctypes.byref(minor)
        ),
        "asking for the compute capability",
    )
    has_bfloat16 = (major.value, minor.value) >= _BFLOAT16_CAPABILITY
    halves = ("bfloat16", "float16") if has_bfloat16 else ("float16",)
    return PlatformFacts(
        name="cuda",
        device_name=f"{name.value.decode(errors='replace')} (sm_{major.value}{minor.value})",
        num_devices=len(handles),
        total_memory_bytes=memory.total,
        available_memory_bytes=memory.free,
        claimable_memory_bytes=memory.total,
        threads=CPU.probe(env).threads,
        dtypes=(*halves, "float32"),
        prefers_checkpoint_dtype=True,
        attention_backends=("triton", "torch_paged"),
        has_exact_path=True,
        default_max_num_seqs=256,
        default_max_num_batched_tokens=8192,
        max_kv_cache_bytes=None,
    )


def _visible(library: Any, visible: str | None) -> list[ctypes.c_void_p]:  # Any: as above
    """Handles of the accelerators that CUDA would show, in the order of the bus."""
    count = ctypes.c_uint()
    _check(library, library.nvmlDeviceGetCount_v2(ctypes.byref(count)), "counting accelerators")
    names = [str(index) for index in range(count.value)]
    if visible is not None:
        names = [name.strip() for name in visible.split(",") if name.strip()]
    handles = []
    for name in names:
        handle = ctypes.c_void_p()
        if name.isdigit():
            status = library.nvmlDeviceGetHandleByIndex_v2(int(name), ctypes.byref(handle))
        else:
            status = library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle))
        if status != 0:
            break  # CUDA, too, ignores what follows the first name it does not know
        handles.append(handle)
    return handles


def _check(library: Any, status: int, doing: str) -> None:  # Any: as above
    if status != 0:
        library.nvmlErrorString.restype = ctypes.c_char_p
        reason = library.nvmlErrorString(status) or b"unknown"
        raise NotHere(f"{doing}: the driver answers {reason.decode(errors='replace')!r}")


PLATFORM = CUDA()
