"""Llama: dense pre-norm decoder with grouped-query attention and a gated feed-forward."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from octavo.config.model import ModelConfig
from octavo.device.attention.interface import AttentionBackend, AttentionSpec, ForwardContext
from octavo.device.layers.attention import SelfAttention
from octavo.device.layers.block import DecoderBlock
from octavo.device.layers.build import Build
from octavo.device.layers.embedding import LMHead, TokenEmbedding
from octavo.device.layers.mlp import GatedMLP
from octavo.device.layers.norm import PreNorms, RMSNorm
from octavo.device.layers.rotary import RotaryEmbedding
from octavo.device.layers.weight_map import HF_DECODER, WeightMap, shards


def llama_block(config: ModelConfig, layer: int, build: Build) -> DecoderBlock:
    """Pre-norm block; a window and biases where the config has them."""
    return DecoderBlock(
        attention=SelfAttention(config, layer, build),
        mlp=GatedMLP(config, build),
        norms=PreNorms(config.hidden_size, config.rms_norm_eps, build),
    )


class LlamaForCausalLM(nn.Module):
    """A stack of blocks between an embedding and a head."""

    weights: ClassVar[WeightMap] = WeightMap(
        HF_DECODER,
        qkv_proj=shards("q_proj", "k_proj", "v_proj"),
        gate_up_proj=shards("gate_proj", "up_proj"),
    )

    def __init__(self, config: ModelConfig, build: Build) -> None:
        super().__init__()
        self.embed_tokens = TokenEmbedding(config.vocab_size, config.hidden_size, build)
        self.rotary = RotaryEmbedding(
            config.rope,
            head_size=config.head_size,
            max_model_len=config.max_model_len,
            build=build,
        )
        self.blocks = nn.ModuleList(
            self.make_block(config, layer, build) for layer in range(config.num_layers)
        )
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps, build)
        tied = self.embed_tokens if config.tie_word_embeddings else None
        self.lm_head = LMHead(config.vocab_size, config.hidden_size, build, tied=tied)

    def make_block(self, config: ModelConfig, layer: int, build: Build) -> DecoderBlock:
        """Return one block; a model that differs in its blocks replaces this."""
        return llama_block(config, layer, build)

    def forward(self, token_ids: Tensor, positions: Tensor, ctx: ForwardContext) -> Tensor:
        """Return hidden states [T, hidden_size]; ``lm_head`` runs in the sample call."""
        hidden, residual = self.embed_tokens(token_ids), None  # [T, hidden_size]
        rotation = self.rotary(positions)
        for block in self.blocks:
            hidden, residual = block(rotation, hidden, residual, ctx)
        return self.norm.add(hidden, residual)[0]

    def compute_logits(self, hidden: Tensor) -> Tensor:
        """Return float32 logits [S, V] of hidden states [S, hidden_size]."""
        return self.lm_head(hidden)

    def attention_layers(self) -> list[tuple[AttentionSpec, AttentionBackend]]:
        """Spec and backend of each layer, in order."""
        layers = [module for module in self.modules() if isinstance(module, SelfAttention)]
        return [(layer.spec, layer.backend) for layer in layers]


MODELS = {"LlamaForCausalLM": LlamaForCausalLM}
