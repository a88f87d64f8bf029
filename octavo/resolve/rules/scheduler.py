"""Limits of one step, and the order of requests."""

from __future__ import annotations

from octavo.resolve.draft import Draft, require_choice, require_range

_MAX_SEQS = 1 << 16
_MAX_TOKENS = 1 << 24


def the_platform_decides_how_many_requests_run(draft: Draft) -> Draft:
    """As many as a step can hold without each waiting long for its token."""
    require_range("max_num_seqs", draft.args.max_num_seqs, 1, _MAX_SEQS)
    default = draft.platform.default_max_num_seqs
    said = draft.args.max_num_batched_tokens
    if said is not None and 1 <= said < default:
        return draft.choose("max_num_seqs", said, "one for each of max_num_batched_tokens")
    return draft.choose("max_num_seqs", default, f"the default on {draft.platform.name}")


def the_platform_decides_how_many_tokens_a_step_has(draft: Draft) -> Draft:
    """Enough to keep the device busy with prompts, few enough for running requests to go on."""
    require_range("max_num_batched_tokens", draft.args.max_num_batched_tokens, 1, _MAX_TOKENS)
    default = draft.platform.default_max_num_batched_tokens
    if draft.max_num_seqs > default:
        return draft.choose(
            "max_num_batched_tokens", draft.max_num_seqs, "one for each of max_num_seqs"
        )
    return draft.choose("max_num_batched_tokens", default, f"the default on {draft.platform.name}")


def first_come_is_first_served(draft: Draft) -> Draft:
    """Unless the user asks that priority displaces running requests."""
    require_choice("scheduling_policy", draft.args.scheduling_policy, ("fcfs", "priority"))
    return draft.choose("scheduling_policy", "fcfs", "the default")


def steps_overlap(draft: Draft) -> Draft:
    """The host schedules the next step while the device computes."""
    return draft.choose("async_scheduling", default=True, reason="the default")


RULES = (
    the_platform_decides_how_many_requests_run,
    the_platform_decides_how_many_tokens_a_step_has,
    first_come_is_first_served,
    steps_overlap,
)
