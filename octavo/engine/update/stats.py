"""SchedulerStats for this step."""

from __future__ import annotations

from octavo.contracts.output import SchedulerStats
from octavo.engine.kv.manager import KVCacheManager
from octavo.engine.request_table import RequestTable


class StatsTaker:
    """Turns totals of the table and the cache into differences since the last time."""

    def __init__(self, table: RequestTable, kv: KVCacheManager) -> None:
        self._table = table
        self._kv = kv
        self._last = (0, 0, 0)

    def take(self, num_scheduled_tokens: int) -> SchedulerStats:
        """Return the state now, and what has happened since the last call."""
        table, kv = self._table, self._kv
        queried, hit, preempted = self._last
        self._last = (kv.num_queried_tokens, kv.num_hit_tokens, table.num_preempted)
        return SchedulerStats(
            num_running=len(table.running),
            num_waiting=len(table.waiting),
            kv_usage=kv.usage,
            num_prefix_queried_tokens=kv.num_queried_tokens - queried,
            num_prefix_hit_tokens=kv.num_hit_tokens - hit,
            num_preempted=table.num_preempted - preempted,
            num_scheduled_tokens=num_scheduled_tokens,
        )
