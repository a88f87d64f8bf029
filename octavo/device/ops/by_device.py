"""Kernels of a device, imported when the first tensor on it is seen."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any


@cache
def cuda_kernels(name: str) -> Any:  # Any: a module, whose functions the caller knows
    """Return module ``name`` of ``ops/cuda``; Triton is imported with the first one."""
    return import_module(f"octavo.device.ops.cuda.{name}")
