"""Qwen3: Llama, with norms of each query and key head before rotation."""

from __future__ import annotations

from octavo.config.model import ModelConfig
from octavo.device.layers.attention import Heads, SelfAttention
from octavo.device.layers.block import DecoderBlock
from octavo.device.layers.build import Build
from octavo.device.layers.mlp import GatedMLP
from octavo.device.layers.norm import PreNorms, RMSNorm
from octavo.device.models.llama import LlamaForCausalLM


def qwen3_block(config: ModelConfig, layer: int, build: Build) -> DecoderBlock:
    """Pre-norm block; queries and keys are normalised per head before rotation."""
    return DecoderBlock(
        attention=SelfAttention(
            build,
            layer=layer,
            hidden_size=config.hidden_size,
            heads=Heads(config.num_heads, config.num_kv_heads, config.head_size),
            window=config.layers[layer].window,
            qkv_bias=config.attention_bias,
            output_bias=config.output_bias,
            head_norms=(
                RMSNorm(config.head_size, config.rms_norm_eps, build),
                RMSNorm(config.head_size, config.rms_norm_eps, build),
            ),
        ),
        mlp=GatedMLP(
            config.hidden_size,
            config.intermediate_size,
            build,
            activation=config.hidden_act,
            bias=config.mlp_bias,
        ),
        norms=PreNorms(config.hidden_size, config.rms_norm_eps, build),
    )


class Qwen3ForCausalLM(LlamaForCausalLM):
    """Dense decoder: grouped-query attention with per-head query and key norms."""

    make_block = staticmethod(qwen3_block)


MODELS = {"Qwen3ForCausalLM": Qwen3ForCausalLM}
