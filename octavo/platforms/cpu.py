"""The processor: memory and cores that this process may use, control groups included."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from octavo.kit.env import Environment
from octavo.platforms.base import PlatformFacts

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class CPU:
    """Reads the system's own tables; ``root`` is where they begin."""

    root: Path = Path("/")

    def probe(self, env: Environment) -> PlatformFacts:  # noqa: ARG002 (platform interface)
        """Ask the system; a CPU is always here."""
        total, available = self._memory()
        return PlatformFacts(
            name="cpu",
            device_name=self._model_name(),
            num_devices=1,
            total_memory_bytes=total,
            available_memory_bytes=available,
            claimable_memory_bytes=available,
            threads=self._threads(),
            dtypes=("float32", "bfloat16", "float16"),
            prefers_checkpoint_dtype=False,
            attention_backends=("torch_paged", "torch_reference"),
            has_exact_path=False,
            default_max_num_seqs=64,
            default_max_num_batched_tokens=512,
            max_kv_cache_bytes=4 * _GIB,
        )

    def _memory(self) -> tuple[int, int]:
        """Return (total, available), of the machine or of the tightest control group."""
        table = self._meminfo()
        total = table.get("MemTotal") or _physical_bytes()
        available = table.get("MemAvailable", total // 2)
        for limit, used in self._memory_limits():
            total, available = min(total, limit), min(available, max(limit - used, 0))
        return total, available

    def _meminfo(self) -> dict[str, int]:
        lines = self._read("proc/meminfo").splitlines()
        pairs = (line.split() for line in lines)
        return {
            pair[0].rstrip(":"): int(pair[1]) << 10
            for pair in pairs
            if len(pair) == 3 and pair[1].isdigit()
        }

    def _memory_limits(self) -> list[tuple[int, int]]:
        """Limit and use of each control group that this process is in."""
        found = []
        for group in self._groups("memory"):
            limit = _number(self._read(f"{group}/memory.max"))
            used = _number(self._read(f"{group}/memory.current"))
            if limit is None:
                limit = _number(self._read(f"{group}/memory.limit_in_bytes"))
                used = _number(self._read(f"{group}/memory.usage_in_bytes"))
            if limit is not None and used is not None:
                found.append((limit, used))
        return found

    def _threads(self) -> int:
        """Cores by affinity, or fewer where a control group grants less time."""
        threads = _affinity()
        for group in self._groups("cpu"):
            quota, _, period = self._read(f"{group}/cpu.max").strip().partition(" ")
            if not quota:
                quota = self._read(f"{group}/cpu.cfs_quota_us").strip()
                period = self._read(f"{group}/cpu.cfs_period_us").strip()
            if quota.isdigit() and period.isdigit() and int(period):
                threads = min(threads, max(1, int(quota) // int(period)))
        return threads

    def _groups(self, controller: str) -> list[str]:
        """Folders of this process's control group and its parents, versions 1 and 2."""
        folders = []
        for line in self._read("proc/self/cgroup").splitlines():
            _, controllers, path = (*line.split(":", 2), "", "")[:3]
            if controllers and controller not in controllers.split(","):
                continue
            base = Path("sys/fs/cgroup") / (controllers and controller)
            parts = [part for part in path.split("/") if part not in ("", "..")]
            folders += [str(base.joinpath(*parts[:count])) for count in range(len(parts), -1, -1)]
        return folders

    def _model_name(self) -> str:
        for line in self._read("proc/cpuinfo").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
        return platform.machine() or "cpu"

    def _read(self, path: str) -> str:
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None


def _physical_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _affinity() -> int:
    """Cores that the scheduler may use for this process; not every system can say."""
    ask = getattr(os, "sched_getaffinity", None)
    return len(ask(0)) if ask else os.cpu_count() or 1


PLATFORM = CPU()
