"""The value that rules complete, one after the other, and the notes they leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from octavo.config.args import EngineArgs
from octavo.config.model import ModelConfig
from octavo.config.scheduler import SchedulerConfig
from octavo.kit.errors import ConfigError
from octavo.platforms.base import PlatformFacts
from octavo.resolve.facts import ModelFacts
from octavo.resolve.memory_plan import MemoryPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Extensions:
    """Names of what is installed, per kind; nothing of it is imported."""

    attention_backends: tuple[str, ...]
    executors: tuple[str, ...]
    quantizations: tuple[str, ...]
    weight_formats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """Why an option has its value."""

    option: str
    value: object
    reason: str

    def __str__(self) -> str:
        return f"{self.option}: {self.value}, {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A configuration in the making. Options start empty; each is set by one rule."""

    args: EngineArgs
    facts: ModelFacts
    platform: PlatformFacts
    extensions: Extensions
    notes: tuple[Note, ...] = ()

    model: ModelConfig
    seed: int = 0
    executor: str = ""
    threads: int = 0
    attention_backend: str = ""
    numerics: str = ""
    block_size: int = 0
    enable_prefix_caching: bool = False
    gpu_memory_utilization: float = 0.0
    max_num_seqs: int = 0
    max_num_batched_tokens: int = 0
    scheduling_policy: str = ""
    async_scheduling: bool = False
    memory: MemoryPlan | None = None
    served_model_name: tuple[str, ...] = ()
    tokenizer: str = ""
    max_logprobs: int = 0
    max_waiting_requests: int = 0
    default_sampling: tuple[tuple[str, float], ...] = ()
    log_level: str = ""

    def choose(self, option: str, default: object, reason: str) -> Self:
        """Set ``option`` to what the user said, else to ``default``, which is noted."""
        said = getattr(self.args, option)
        if said is not None:
            return self.set(option, said)
        return self.set(option, default).note(option, default, reason)

    def set(self, option: str, value: Any) -> Self:  # Any: each option has its type
        """Return a draft with one option set."""
        return replace(self, **{option: value})

    def note(self, option: str, value: object, reason: str) -> Self:
        """Return a draft that says why ``option`` has its value."""
        return replace(self, notes=(*self.notes, Note(option, value, reason)))

    @property
    def scheduler(self) -> SchedulerConfig:
        """Limits of a step, once the rules of the scheduler have run."""
        return SchedulerConfig(
            max_num_batched_tokens=self.max_num_batched_tokens,
            max_num_seqs=self.max_num_seqs,
            max_model_len=self.model.max_model_len,
            policy=self.scheduling_policy,
            overlap=self.async_scheduling,
        )


def require_range(option: str, value: float | None, low: float, high: float) -> None:
    """Refuse a number that is out of range; None is what the user did not say.

    Raises:
        ConfigError: it is.
    """
    if value is not None and not low <= value <= high:
        flag = option.replace("_", "-")
        raise ConfigError(
            option, value, want=f"must be from {low} to {high}", fix=f"Change --{flag}."
        )


def require_choice(option: str, value: str | None, choices: Sequence[str]) -> None:
    """Refuse a name that is none of ``choices``.

    Raises:
        ConfigError: it is not.
    """
    if value is not None and value not in choices:
        flag = option.replace("_", "-")
        are_numbers = all(choice.isdecimal() for choice in choices)
        listed = sorted(choices, key=int) if are_numbers else choices
        raise ConfigError(
            option,
            int(value) if are_numbers and value.isdecimal() else value,
            want=f"must be one of {', '.join(listed) or 'none, since nothing is installed'}",
            fix=f"Use --{flag} {choices[0]}." if choices else f"Leave out --{flag}.",
        )
