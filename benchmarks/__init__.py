"""Benchmarks. octavo comes before torch here, too: its threads sleep where they wait."""

import octavo.device  # noqa: F401 (for what it does)
