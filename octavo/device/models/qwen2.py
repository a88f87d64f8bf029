"""Qwen2: Llama, with biases on queries, keys and values as the config says."""

from __future__ import annotations

from octavo.device.models.llama import LlamaForCausalLM

MODELS = {"Qwen2ForCausalLM": LlamaForCausalLM}
