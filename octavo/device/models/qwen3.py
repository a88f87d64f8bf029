"""Qwen3: Llama, with norms of each query and key head before rotation."""

from __future__ import annotations

from octavo.config.model import ModelConfig
from octavo.device.layers.attention import SelfAttention
from octavo.device.layers.block import DecoderBlock
from octavo.device.layers.build import Build
from octavo.device.layers.mlp import GatedMLP
from octavo.device.layers.norm import PreNorms, RMSNorm
from octavo.device.models.llama import LlamaForCausalLM


def qwen3_block(config: ModelConfig, layer: int, build: Build) -> DecoderBlock:
    """Pre-norm block; queries and keys are normalised per head before rotation."""
    head_norms = (
        RMSNorm(config.head_size, config.rms_norm_eps, build),
        RMSNorm(config.head_size, config.rms_norm_eps, build),
    )
    return DecoderBlock(
        attention=SelfAttention(config, layer, build, head_norms=head_norms),
        mlp=GatedMLP(config, build),
        norms=PreNorms(config.hidden_size, config.rms_norm_eps, build),
    )


class Qwen3ForCausalLM(LlamaForCausalLM):
    """Dense decoder: grouped-query attention with per-head query and key norms."""

    def make_block(self, config: ModelConfig, layer: int, build: Build) -> DecoderBlock:
        return qwen3_block(config, layer, build)


MODELS = {"Qwen3ForCausalLM": Qwen3ForCausalLM}
