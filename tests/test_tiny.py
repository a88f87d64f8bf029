"""One prompt to one token through every layer, on a two-layer model of random weights.

Quick enough to run before each commit.
"""

from __future__ import annotations

from pathlib import Path

from octavo import LLM, SamplingParams
from tests.serve.tiny_model import write_tiny_model


def test_one_prompt_gives_one_token(tmp_path: Path) -> None:
    folder = str(write_tiny_model(tmp_path))
    params = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True)

    with LLM(folder, kv_cache_memory_bytes=1 << 20) as llm:
        [whole] = llm.generate("Hi", params, use_tqdm=False)
        [again] = llm.generate("Hi", params, use_tqdm=False)

    assert len(whole.prompt_token_ids) == 2
    assert len(whole.outputs[0].token_ids) == 1
    assert whole.outputs[0].finish_reason == "length"
    assert again.outputs[0].token_ids == whole.outputs[0].token_ids
