from __future__ import annotations

from octavo.testing.fake_clock import FakeClock


def test_time_passes_when_it_is_told_to():
    clock = FakeClock(5.0)

    clock.advance(2.5)

    assert clock() == clock() == 7.5
