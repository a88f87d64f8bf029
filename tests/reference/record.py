"""Record what transformers answers with the real models, for ``test_real_models.py``.

Run from the repository, once per model, with the model's file where ``tests/real_models.py`` looks:

    python -m tests.reference.record smollm2
    python -m tests.reference.record qwen2.5

Float32, greedy, one text at a time. Written beside this script: each prompt's ids, the answer's
ids, and how far the second best token was behind at each step.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import transformers

from tests.real_models import demo_model, qwen_model

NUM_TOKENS = 64
Answer = dict[str, list[float]]
MODELS: dict[str, Callable[[], Path]] = {"smollm2": demo_model, "qwen2.5": qwen_model}
LENGTHS = (
    1,
    5,
    9,
    16,
    31,
    48,
    64,
    100,
    128,
    200,
    255,
    300,
    400,
    513,
    700,
    900,
    1200,
    1500,
    1800,
    2000,
)
_BEGINNINGS = (
    "What is the capital of Japan?",
    "Write a Python function that merges two sorted lists.",
    "Explain in one paragraph why the sky is blue.",
    "Translate into French: the train leaves at noon.",
)


def recording(name: str) -> Path:
    """Where the answers of a model are."""
    return Path(__file__).parent / f"{name}.json"


def recorded_answers(name: str) -> dict[tuple[int, ...], Answer]:
    """Answers that are recorded already, by prompt; remove the file to make all of them anew."""
    if not recording(name).exists():
        return {}
    return {tuple(line["prompt"]): line for line in json.loads(recording(name).read_text())}


def prompts(tokenizer: transformers.PreTrainedTokenizerBase) -> list[list[int]]:
    """Questions alone, and behind a passage of the licence, cut to the lengths above."""
    licence = (Path(__file__).parents[2] / "LICENSE").read_text()
    passage = 2 * tokenizer.encode(licence, add_special_tokens=False)
    made = []
    for index, length in enumerate(LENGTHS):
        question = tokenizer.encode(_BEGINNINGS[index % len(_BEGINNINGS)], add_special_tokens=False)
        start = 37 * index
        text = passage[start : start + max(0, length - len(question))] + question
        made.append(text[:length])
    return made


@torch.no_grad()
def answer(model: transformers.PreTrainedModel, prompt: list[int]) -> Answer:
    """Continue greedily; the margin is the difference of the two best log-probabilities."""
    ids, cache = torch.tensor([prompt]), None
    token_ids: list[float] = []
    margins: list[float] = []
    for _ in range(NUM_TOKENS):
        output = model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = output.past_key_values
        best = output.logits[0, -1].log_softmax(-1).topk(2)
        token_ids.append(int(best.indices[0]))
        margins.append(round(float(best.values[0] - best.values[1]), 5))
        ids = best.indices[:1].view(1, 1)
    return {"prompt": prompt, "token_ids": token_ids, "margins": margins}


def main(name: str) -> None:
    path = MODELS[name]()
    place = {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name}
    tokenizer = transformers.AutoTokenizer.from_pretrained(**place)
    model = transformers.AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32).eval()
    known = recorded_answers(name)
    answers = [known.get(tuple(text)) or answer(model, text) for text in prompts(tokenizer)]
    lines = [json.dumps(line, separators=(",", ":")) for line in answers]
    recording(name).write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main(sys.argv[1])
