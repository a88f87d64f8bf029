"""Ordinary plans of made-up requests, to be run through the normal path before serving."""

from __future__ import annotations

import numpy as np

from octavo.config.octavo import OctavoConfig
from octavo.contracts.kv import KVCacheConfig
from octavo.contracts.sampling import Penalties, TokenSampling
from octavo.contracts.schedule import NewRequest, SchedulerOutput

_MOST_TOKENS = 64
_NUM_DECODE_STEPS = 2


def warm_up_plans(config: OctavoConfig, kv_cache: KVCacheConfig) -> list[SchedulerOutput]:
    """Return a prefill of a greedy and a random request, then steps of one token each.

    Empty where the KV cache cannot hold even that. Rows and blocks are free again after a reset.
    """
    requests = min(2, config.scheduler.max_num_seqs)
    block_size = min(group.block_size for group in kv_cache.groups)
    blocks = (kv_cache.num_blocks - 1) // requests
    room = min(
        blocks * block_size,
        config.scheduler.max_model_len,
        config.scheduler.max_num_batched_tokens // requests,
        _MOST_TOKENS,
    )
    prompt = room - _NUM_DECODE_STEPS
    if prompt < 1:
        return []
    new = [_request(row, prompt, blocks, kv_cache) for row in range(requests)]
    rows = np.arange(requests, dtype=np.int32)
    prefill = SchedulerOutput(0, new, rows, np.full(requests, prompt, np.int32))
    ones = np.ones(requests, np.int32)
    decodes = [SchedulerOutput(step, [], rows, ones) for step in range(1, _NUM_DECODE_STEPS + 1)]
    return [prefill, *decodes]


def _request(row: int, num_tokens: int, num_blocks: int, kv_cache: KVCacheConfig) -> NewRequest:
    greedy = TokenSampling(max_tokens=_NUM_DECODE_STEPS + 1, temperature=0.0)
    by_chance = TokenSampling(
        max_tokens=_NUM_DECODE_STEPS + 1, top_p=0.9, penalties=Penalties(1.1), logprobs=1
    )
    first = 1 + row * num_blocks
    return NewRequest(
        row=row,
        request_id=f"warm-up-{row}",
        token_ids=np.zeros(num_tokens, np.int32),
        num_prompt_tokens=num_tokens,
        block_ids=[
            list(range(first, first + -(-(num_tokens + _NUM_DECODE_STEPS) // group.block_size)))
            for group in kv_cache.groups
        ],
        num_computed_tokens=0,
        sampling=by_chance if row else greedy,
    )
