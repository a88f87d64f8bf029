"""What fits: KV blocks, and the longest context they allow."""

from __future__ import annotations

from dataclasses import replace

from octavo.kit.errors import ConfigError
from octavo.resolve.draft import Draft, require_choice, require_range
from octavo.resolve.memory_plan import (
    MemoryPlan,
    kv_bytes_per_block,
    pool_for,
    rope_bytes,
    tokens_in,
    weights_bytes,
    workspace_bytes,
)

_BLOCK_SIZES = ("16", "32", "64", "128", "8", "4", "2", "1")
_SHORTEST = 16
"""A context that was lowered below this serves nobody. [tokens]"""


def blocks_hold_sixteen_tokens(draft: Draft) -> Draft:
    """Small enough to share prefixes closely, large enough for short block tables."""
    said = draft.args.block_size
    require_choice("block_size", None if said is None else str(said), _BLOCK_SIZES)
    return draft.choose("block_size", 16, "the default")


def equal_prefixes_are_reused(draft: Draft) -> Draft:
    """A hit costs a look-up and saves a prompt."""
    return draft.choose("enable_prefix_caching", default=True, reason="the default")


def a_tenth_of_the_memory_is_left_alone(draft: Draft) -> Draft:
    """What others need, and what no plan can foresee."""
    require_range("gpu_memory_utilization", draft.args.gpu_memory_utilization, 0.01, 1.0)
    return draft.choose("gpu_memory_utilization", 0.9, "the default")


def the_cache_takes_what_is_useful_and_free(draft: Draft) -> Draft:
    """What was asked for; else the least of what is free, what is modest, what can be used."""
    plan = _without_cache(draft)
    said = draft.args.kv_cache_memory_bytes
    require_range("kv_cache_memory_bytes", said, plan.bytes_per_block, 1 << 50)
    if said is not None:
        return _sized(draft, plan, said // plan.bytes_per_block)
    free = plan.limit_bytes - plan.total_bytes
    if free < 2 * plan.bytes_per_block:
        raise _too_large(draft, plan)
    modest = draft.platform.max_kv_cache_bytes
    useful = pool_for(draft.model.max_model_len, draft.max_num_seqs, draft.block_size)
    limits = {
        "what memory leaves": free // plan.bytes_per_block,
        f"all that {draft.max_num_seqs} requests of the longest context fill": useful,
    }
    if modest is not None:
        reason = f"{size(modest)}, the most it takes unasked on {draft.platform.name}"
        limits[reason] = modest // plan.bytes_per_block
    reason = min(limits, key=lambda name: limits[name])
    draft = _sized(draft, plan, limits[reason])
    assert draft.memory is not None
    return draft.note("kv_cache_memory_bytes", size(draft.memory.kv_bytes), reason)


def one_request_of_the_longest_context_fits(draft: Draft) -> Draft:
    """Else a request that was accepted could never end."""
    assert draft.memory is not None
    plan, wanted = draft.memory, draft.model.max_model_len
    fits = tokens_in(plan.num_blocks, draft.block_size)
    if fits >= wanted:
        return draft
    if draft.args.max_model_len is not None or fits < _SHORTEST:
        need = pool_for(wanted, 1, draft.block_size) * plan.bytes_per_block
        raise ConfigError(
            "max_model_len",
            wanted,
            want=(
                f"one request of this length needs {size(need)} of KV cache, and "
                f"{size(plan.kv_bytes)} are there for {fits} tokens"
            ),
            fix=_remedies(draft, fits, need),
        )
    reason = f"lowered from {wanted} to what a KV cache of {size(plan.kv_bytes)} holds"
    draft = draft.set("model", replace(draft.model, max_model_len=fits))
    return draft.note("max_model_len", fits, reason)


def size(num_bytes: int) -> str:
    """Return bytes in the unit a person would choose."""
    value, units = float(num_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"


def _without_cache(draft: Draft) -> MemoryPlan:
    return MemoryPlan(
        limit_bytes=_limit(draft),
        weights_bytes=weights_bytes(draft.facts.num_weights, draft.model),
        rope_bytes=rope_bytes(draft.model),
        workspace_bytes=workspace_bytes(draft.model, draft.scheduler, draft.block_size),
        bytes_per_block=kv_bytes_per_block(draft.model, draft.block_size),
        num_blocks=0,
    )


def _limit(draft: Draft) -> int:
    """Memory this start may use: a part of the device's, and no more than is free."""
    platform = draft.platform
    part = int(draft.gpu_memory_utilization * platform.claimable_memory_bytes)
    return min(part, platform.available_memory_bytes)


def _sized(draft: Draft, plan: MemoryPlan, num_blocks: int) -> Draft:
    """Set the pool and check what the plan adds up to."""
    plan = replace(plan, num_blocks=num_blocks)
    if plan.total_bytes > draft.platform.available_memory_bytes:
        raise _too_large(draft, plan)
    return draft.set("memory", plan)


def _too_large(draft: Draft, plan: MemoryPlan) -> ConfigError:
    parts = ", ".join(f"{name} {size(taken)}" for name, taken in plan.regions().items() if taken)
    flags = "Use a smaller model, --max-model-len, --max-num-seqs or --max-num-batched-tokens"
    if draft.args.kv_cache_memory_bytes is not None:
        flags = "Lower --kv-cache-memory-bytes"
    elif draft.model.dtype == "float32":
        flags += ", or --dtype bfloat16"
    free = size(draft.platform.available_memory_bytes)
    return ConfigError(
        "model",
        draft.model.name,
        want=(
            f"needs {parts}; {free} are free on {draft.platform.device_name}, of which "
            f"{size(plan.limit_bytes)} may be used"
        ),
        fix=f"{flags}.",
    )


def _remedies(draft: Draft, fits: int, need: int) -> str:
    remedies = [f"lower --max-model-len to {fits}"] if fits else []
    if draft.args.kv_cache_memory_bytes is not None:
        remedies.append(f"raise --kv-cache-memory-bytes to {need}")
    else:
        remedies.append(f"set --kv-cache-memory-bytes {need}")
        remedies.append("raise --gpu-memory-utilization")
    text = ", or ".join(remedies)
    return f"{text[0].upper()}{text[1:]}."


RULES = (
    blocks_hold_sixteen_tokens,
    equal_prefixes_are_reused,
    a_tenth_of_the_memory_is_left_alone,
    the_cache_takes_what_is_useful_and_free,
    one_request_of_the_longest_context_fits,
)
