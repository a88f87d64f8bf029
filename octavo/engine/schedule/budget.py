"""What one step may spend."""

from __future__ import annotations

from dataclasses import dataclass

from octavo.config.scheduler import SchedulerConfig


def short_limit(config: SchedulerConfig) -> int:
    """Return the tokens up to which a prompt counts as short: what a step keeps for such."""
    share = int(config.max_num_batched_tokens * config.short_prompt_share)
    return max(1, min(share, config.max_num_batched_tokens - 1))


@dataclass(slots=True)
class StepBudget:
    """Tokens and requests that a step has left.

    Invariant: no field is negative, and ``long_tokens <= tokens`` matters to long prompts only.
    """

    tokens: int
    requests: int
    long_tokens: int
    """Most that prompts above ``short_limit`` may still take. [tokens]"""
    short_limit: int

    @classmethod
    def full(cls, config: SchedulerConfig) -> StepBudget:
        """Start a step."""
        return cls(
            tokens=config.max_num_batched_tokens,
            requests=config.max_num_seqs,
            long_tokens=config.max_num_batched_tokens,
            short_limit=short_limit(config),
        )

    def keep_for_short(self, share: float) -> None:
        """Keep a share of the tokens that are left from long prompts, but leave them one."""
        self.long_tokens = max(1, self.tokens - int(self.tokens * share))

    def take(self, pending: int) -> int:
        """Spend as many of ``pending`` tokens as a request may have now; maybe none."""
        if pending <= self.short_limit:
            granted = min(pending, self.tokens)
        else:
            granted = min(pending, self.tokens, self.long_tokens)
            self.long_tokens -= granted
        self.tokens -= granted
        return granted

    def give_back(self, pending: int, granted: int) -> None:
        """Undo ``take(pending)``, which gave ``granted``."""
        self.tokens += granted
        if pending > self.short_limit:
            self.long_tokens += granted
