from __future__ import annotations

import os
from pathlib import Path

from octavo.kit.env import Environment
from octavo.platforms.base import PlatformFacts
from octavo.platforms.cpu import CPU, PLATFORM

ENV = Environment(cache_dir=None, api_key=None)
GIB = 1 << 30
MEMINFO = f"MemTotal: {16 << 20} kB\nMemAvailable: {8 << 20} kB\nHugePages_Total: 0\nBad: x kB\n"


def probe(root: Path, **files: str) -> PlatformFacts:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return CPU(root).probe(ENV)


def test_this_machine_has_a_processor() -> None:
    facts = PLATFORM.probe(ENV)

    assert facts.name == "cpu"
    assert 0 < facts.available_memory_bytes <= facts.total_memory_bytes
    assert 1 <= facts.threads <= (os.cpu_count() or 1)
    assert facts.device_name


def test_memory_and_name_come_from_the_systems_tables(tmp_path: Path) -> None:
    facts = probe(
        tmp_path, proc__meminfo=MEMINFO, proc__cpuinfo="flags: a\nmodel name\t: Fast One\n"
    )

    assert (facts.total_memory_bytes, facts.available_memory_bytes) == (16 * GIB, 8 * GIB)
    assert facts.claimable_memory_bytes == 8 * GIB
    assert facts.device_name == "Fast One"


def test_a_system_without_tables_is_asked_otherwise(tmp_path: Path) -> None:
    facts = probe(tmp_path)

    assert facts.total_memory_bytes == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert facts.available_memory_bytes == facts.total_memory_bytes // 2
    assert facts.device_name


def test_the_tightest_control_group_bounds_memory_and_cores(tmp_path: Path) -> None:
    facts = probe(
        tmp_path,
        proc__meminfo=MEMINFO,
        proc__self__cgroup="0::/a/b\n",
        sys__fs__cgroup__a__b__memory_max="x",
        **{
            "sys__fs__cgroup__a__b__memory.max": "max\n",
            "sys__fs__cgroup__a__memory.max": f"{4 * GIB}\n",
            "sys__fs__cgroup__a__memory.current": f"{GIB}\n",
            "sys__fs__cgroup__a__b__cpu.max": "max 100000\n",
            "sys__fs__cgroup__a__cpu.max": "150000 100000\n",
        },
    )

    assert (facts.total_memory_bytes, facts.available_memory_bytes) == (4 * GIB, 3 * GIB)
    assert facts.threads == 1


def test_a_group_that_is_over_its_limit_leaves_nothing(tmp_path: Path) -> None:
    facts = probe(
        tmp_path,
        proc__meminfo=MEMINFO,
        proc__self__cgroup="0::/\n",
        **{"sys__fs__cgroup__memory.max": "5", "sys__fs__cgroup__memory.current": "6"},
    )

    assert facts.available_memory_bytes == 0


def test_control_groups_of_version_one_are_read_too(tmp_path: Path) -> None:
    facts = probe(
        tmp_path,
        proc__meminfo=MEMINFO,
        proc__self__cgroup="5:cpu,cpuacct:/x\n4:memory:/x\n3:pids:/x\nbroken\n",
        **{
            "sys__fs__cgroup__memory__x__memory.limit_in_bytes": str(2 * GIB),
            "sys__fs__cgroup__memory__x__memory.usage_in_bytes": str(GIB),
            "sys__fs__cgroup__cpu__x__cpu.cfs_quota_us": "50000",
            "sys__fs__cgroup__cpu__x__cpu.cfs_period_us": "100000",
        },
    )

    assert (facts.total_memory_bytes, facts.available_memory_bytes) == (2 * GIB, GIB)
    assert facts.threads == 1
