"""Real models through the engine, against recorded answers of transformers in float32."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

import pytest

from octavo.api.frontend.outputs import RequestOutput
from octavo.api.frontend.params import SamplingParams
from octavo.config.args import EngineArgs
from octavo.kit.env import read_environment
from octavo.launch.inprocess import InProcess, open_llm
from octavo.resolve.load import load_config
from tests.reference.record import MODELS, NUM_TOKENS, recording

NEAR_TIE = 1e-3
"""Difference of the reference's two best log-probabilities below which either may be chosen."""

POINTS = {
    "defaults": {},
    "small_chunks_small_blocks": {"max_num_batched_tokens": 64, "block_size": 8},
    "no_prefixes_no_overlap": {"enable_prefix_caching": False, "async_scheduling": False},
    "few_rows_large_blocks": {"max_num_seqs": 3, "block_size": 32, "max_num_batched_tokens": 700},
}


@dataclass(frozen=True)
class Recorded:
    """What transformers answered."""

    prompt: list[int]
    token_ids: list[int]
    margins: list[float]

    def agrees(self, found: list[int]) -> bool:
        """Equal, or different from a near tie on: from there the texts are no longer the same."""
        for ours, theirs, margin in zip(found, self.token_ids, self.margins, strict=True):
            if ours != theirs:
                return margin <= NEAR_TIE
        return True


def recorded(name: str) -> list[Recorded]:
    return [Recorded(**answer) for answer in json.loads(recording(name).read_text())]


async def answers(process: InProcess, texts: list[Recorded]) -> list[RequestOutput]:
    params = SamplingParams(temperature=0, max_tokens=NUM_TOKENS, ignore_eos=True)

    async def one(index: int) -> RequestOutput:
        stream = await process.llm.add(texts[index].prompt, params, request_id=str(index))
        return [output async for output in stream][-1]

    return await asyncio.gather(*map(one, range(len(texts))))


def check(name: str, options: dict[str, object], texts: list[Recorded]) -> None:
    usual = {"model": str(MODELS[name]()), "max_model_len": 2200, "kv_cache_memory_bytes": 1 << 30}
    process = open_llm(load_config(EngineArgs(**(usual | options)), read_environment()))
    try:
        outputs = process.run(answers(process, texts))
    finally:
        process.close()

    for text, output in zip(texts, outputs, strict=True):
        found = output.outputs[0].token_ids
        assert text.agrees(found), f"{len(text.prompt)} tokens: {found} is not {text.token_ids}"


@pytest.mark.slow
def test_the_demo_model_answers_short_prompts_as_transformers_does() -> None:
    texts = [text for text in recorded("smollm2") if len(text.prompt) <= 128]

    check("smollm2", {}, texts)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("name", MODELS)
def test_a_real_model_answers_as_transformers_does(name: str, point: str) -> None:
    check(name, POINTS[point], recorded(name))


def test_a_difference_is_excused_by_a_near_tie_only() -> None:
    text = Recorded(prompt=[1], token_ids=[4, 5, 6], margins=[0.5, 0.0005, 0.5])

    assert text.agrees([4, 5, 6])
    assert text.agrees([4, 9, 9])
    assert not text.agrees([9, 5, 6])
    assert not text.agrees([4, 5, 9])
