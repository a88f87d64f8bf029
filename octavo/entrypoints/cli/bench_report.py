"""What a benchmark prints: a table for people, then one JSON object for scripts."""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from octavo import __version__
from octavo.kit.errors import ConfigError

Figures = dict[str, float | int | str]
"""Name, with its unit at the end, and value."""

_MAX_TOKEN_ID = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportArgs:
    """The report."""

    json: bool = False
    """Print the JSON object alone, without the table."""

    output_json: str | None = None
    """File to write the JSON object to."""

    def report(self, name: str, figures: Figures) -> None:
        """Print, and write where a file was named.

        Raises:
            ConfigError: the file cannot be written.
        """
        whole: Figures = {
            "benchmark": name,
            "octavo": __version__,
            "machine": _machine(),
            **figures,
        }
        text = json.dumps(whole)
        if not self.json:
            print(_table(figures) + "\n")
        print(text)
        if self.output_json is None:
            return
        try:
            Path(self.output_json).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                "output_json",
                self.output_json,
                want=f"cannot be written ({error.strerror})",
                fix="Name another file.",
            ) from None


def distribution(name: str, seconds: Sequence[float]) -> Figures:
    """Mean, median and tails of durations, in milliseconds."""
    if not seconds:
        return {}
    ordered = sorted(1e3 * value for value in seconds)
    return {
        f"mean_{name}_ms": statistics.fmean(ordered),
        f"median_{name}_ms": statistics.median(ordered),
        f"p90_{name}_ms": percentile(ordered, 90),
        f"p99_{name}_ms": percentile(ordered, 99),
    }


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Value below which so many percent lie; between two values, on the line between them."""
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def random_prompts(count: int, length: int, *, vocab_size: int, seed: int) -> list[list[int]]:
    """Prompts of token ids that share no prefix but by chance."""
    rng, most = Random(seed), min(vocab_size - 1, _MAX_TOKEN_ID)
    return [[rng.randint(0, most) for _ in range(length)] for _ in range(count)]


def require_positive(**values: float | None) -> None:
    """Refuse what must be above 0.

    Raises:
        ConfigError: names the first one that is not.
    """
    for name, value in values.items():
        if value is not None and not value > 0:
            flag = "--" + name.replace("_", "-")
            raise ConfigError(name, value, want="must be above 0", fix=f"Use {flag} 1.")


def _table(figures: Figures) -> str:
    width = max(map(len, figures))
    return "\n".join(
        f"{name:<{width}}  {value:>12.2f}"
        if isinstance(value, float)
        else f"{name:<{width}}  {value:>12}"
        for name, value in figures.items()
    )


def _machine() -> str:
    return f"{platform.machine()} {platform.system()} Python {platform.python_version()}"
