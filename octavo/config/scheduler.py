"""Limits of one step, and the order of requests."""

from __future__ import annotations

from dataclasses import dataclass

from octavo.kit.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Limits of one step. Every field is concrete; none is guessed later."""

    max_num_batched_tokens: int
    """Most tokens one step computes, over all requests. [tokens]"""

    max_num_seqs: int
    """Most requests one step runs. [requests]"""

    max_model_len: int
    """Longest prompt plus answer. [tokens]"""

    policy: str
    """fcfs or priority. Both order waiting requests by (priority, arrival); with ``priority`` a
    waiting request also takes the place of a running one of lower priority."""

    overlap: bool
    """Schedule the next step while the device computes this one."""

    short_prompt_share: float = 0.25
    """Part of a step's tokens that long prompts leave to prompts that fit into it."""

    def __post_init__(self) -> None:
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ConfigError(
                "max_num_batched_tokens",
                self.max_num_batched_tokens,
                want=f"must be at least max_num_seqs ({self.max_num_seqs})",
                fix="Raise --max-num-batched-tokens or lower --max-num-seqs.",
            )
        if self.policy not in ("fcfs", "priority"):
            raise ConfigError(
                "scheduling_policy",
                self.policy,
                want="must be fcfs or priority",
                fix="Use --scheduling-policy fcfs.",
            )

    @property
    def max_rows(self) -> int:
        """Row numbers the engine may give out, from 0.

        Twice the requests of a step: one that has ended keeps its row until its last plan is
        updated.
        """
        return 2 * self.max_num_seqs
