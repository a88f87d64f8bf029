"""The demo model in transformers, with the same weights in float32."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM


class TransformersPeer:
    """Greedy generation of a fixed number of tokens, one request at a time or as one batch."""

    def __init__(self, gguf: Path, *, threads: int) -> None:
        torch.set_num_threads(threads)
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, dtype=torch.float32
        )
        self._model = model.eval()

    @torch.inference_mode()
    def one_by_one(self, prompts: list[list[int]], num_tokens: int) -> list[list[int]]:
        """Call ``generate()`` per prompt."""
        return [self._generate([prompt], num_tokens)[0] for prompt in prompts]

    @torch.inference_mode()
    def as_batch(self, prompts: list[list[int]], num_tokens: int) -> list[list[int]]:
        """Call ``generate()`` once; the prompts have one length, so nothing is padded."""
        return self._generate(prompts, num_tokens)

    def _generate(self, prompts: list[list[int]], num_tokens: int) -> list[list[int]]:
        token_ids = torch.tensor(prompts)
        output = self._model.generate(
            token_ids,
            attention_mask=torch.ones_like(token_ids),
            do_sample=False,
            min_new_tokens=num_tokens,
            max_new_tokens=num_tokens,
            pad_token_id=0,
        )
        answers: list[list[int]] = output[:, token_ids.shape[1] :].tolist()
        return answers
