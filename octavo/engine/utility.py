"""Control calls: what a ``UtilityCall`` may ask for."""

from __future__ import annotations

from collections.abc import Callable

from octavo.contracts.output import UtilityResult
from octavo.contracts.request import UtilityCall
from octavo.engine.kv.manager import KVCacheManager
from octavo.engine.request_table import RequestTable
from octavo.engine.update.updater import Updater

Value = int | str | bool | None


class Utilities:
    """Methods of the engine that can be called by name, between two steps."""

    def __init__(self, table: RequestTable, kv: KVCacheManager, updater: Updater) -> None:
        self._table = table
        self._kv = kv
        self._updater = updater
        self._methods: dict[str, Callable[[], Value]] = {
            "reset_prefix_cache": self._reset_prefix_cache,
            "num_free_blocks": lambda: kv.num_free_blocks,
            "num_requests": lambda: len(table),
            "abort_all": self._abort_all,
        }

    def answer(self, call: UtilityCall) -> UtilityResult:
        """Do what is asked; an unknown method or wrong arguments are an answer, too."""
        method = self._methods.get(call.method)
        if method is None:
            known = ", ".join(sorted(self._methods))
            return UtilityResult(
                call.call_id, error=f"the engine has no method {call.method!r}; it has {known}."
            )
        if call.args:
            return UtilityResult(
                call.call_id, error=f"{call.method} takes no arguments; got {call.args!r}."
            )
        return UtilityResult(call.call_id, value=method())

    def _reset_prefix_cache(self) -> int:
        """Make no block findable; return how many were."""
        return self._kv.forget_prefixes()

    def _abort_all(self) -> int:
        """End every live request; return how many there were."""
        requests = self._table.live()
        for request in requests:
            self._updater.abort(request)
        return len(requests)
