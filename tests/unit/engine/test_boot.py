from __future__ import annotations

from octavo.engine.boot import boot
from octavo.testing.fake_clock import FakeClock
from octavo.testing.fake_config import fake_config
from octavo.testing.fake_worker import FakeWorker
from octavo.testing.local_executor import LocalExecutor


def test_a_start_times_its_phases():
    clock = FakeClock()

    class Slow(FakeWorker):
        def load(self):
            clock.advance(3.0)

        def warm_up(self):
            clock.advance(0.5)

    config = fake_config()

    booted = boot(config, LocalExecutor(config, Slow), clock)

    assert [seconds for _, seconds in booted.phases] == [0.0, 3.0, 0.0, 0.5]
    assert booted.kv_cache.num_blocks == 257
