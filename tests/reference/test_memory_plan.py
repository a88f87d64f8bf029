"""What the plan says before loading is what the worker measures after it, to the byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from octavo.config.args import EngineArgs
from octavo.contracts.worker import WorkerInit
from octavo.device.worker import make_worker
from octavo.kit.env import Environment
from octavo.resolve.load import load_draft
from octavo.resolve.resolver import finished

transformers = pytest.importorskip("transformers")

SIZES = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 256,
}  # fmt: skip
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama with biases": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "llama tied": ("Llama", {"tie_word_embeddings": True}),
    "mistral": ("Mistral", {"head_dim": 8, "sliding_window": 64}),
    "qwen2": ("Qwen2", {}),
    "qwen3": ("Qwen3", {"head_dim": 16, "tie_word_embeddings": True}),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", CASES)
def test_the_plan_is_what_the_worker_measures(tmp_path: Path, case: str, dtype: str) -> None:
    family, changes = CASES[case]
    config = getattr(transformers, f"{family}Config")(**{**SIZES, **changes})
    getattr(transformers, f"{family}ForCausalLM")(config).save_pretrained(tmp_path)
    said = EngineArgs(model=str(tmp_path), dtype=dtype, threads=1, max_num_seqs=2)
    draft = load_draft(said, Environment(cache_dir=None, api_key=None, visible_devices=""))
    worker = make_worker(WorkerInit(config=finished(draft)))

    worker.load()

    plan, report = draft.memory, worker.measure_memory()
    assert plan is not None
    assert plan.weights_bytes + plan.rope_bytes == report.weights_bytes
    assert plan.workspace_bytes == report.workspace_bytes
    assert plan.bytes_per_block == sum(spec.bytes_per_block for spec in worker.kv_cache_specs())
    worker.close()
