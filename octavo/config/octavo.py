"""The aggregate: made by ``resolve``, handed out in parts."""

from __future__ import annotations

from dataclasses import dataclass

from octavo.config.cache import CacheConfig
from octavo.config.frontend import FrontendConfig
from octavo.config.model import ModelConfig
from octavo.config.parallel import ParallelConfig
from octavo.config.scheduler import SchedulerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class OctavoConfig:
    """Everything that was decided, and why."""

    model: ModelConfig
    cache: CacheConfig
    scheduler: SchedulerConfig
    parallel: ParallelConfig
    frontend: FrontendConfig
    attention_backend: str
    """Names a backend in ``device/attention/backends``."""
    numerics: str
    """exact or fast (ARCHITECTURE, section 10a)."""
    log_level: str
    notes: tuple[str, ...]
    """One line per value that a rule derived or changed: name, value, reason."""
