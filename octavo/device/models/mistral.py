"""Mistral: Llama, with a sliding window where the config has one."""

from __future__ import annotations

from octavo.device.models.llama import LlamaForCausalLM

MODELS = {"MistralForCausalLM": LlamaForCausalLM}
