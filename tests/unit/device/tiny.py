"""A model whose every hidden state depends on each earlier token and its place, through KV."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import torch
from torch import Tensor

from octavo.config.cache import CacheConfig
from octavo.config.frontend import FrontendConfig
from octavo.config.model import LayerConfig, ModelConfig, RopeConfig
from octavo.config.octavo import OctavoConfig
from octavo.config.parallel import ParallelConfig
from octavo.config.scheduler import SchedulerConfig
from octavo.device.attention.interface import AttentionMetadata, AttentionSpec, ForwardContext

VOCAB = 97
HIDDEN = 16


def tiny_config(
    *,
    block_size: int = 4,
    max_num_seqs: int = 8,
    max_num_batched_tokens: int = 64,
    max_model_len: int = 64,
    num_blocks: int = 200,
) -> OctavoConfig:
    return OctavoConfig(
        model=ModelConfig(
            name="tiny",
            path="tiny",
            weight_format="dummy",
            model_type="tiny",
            architecture="Tiny",
            dtype="float32",
            max_model_len=max_model_len,
            vocab_size=VOCAB,
            hidden_size=HIDDEN,
            intermediate_size=HIDDEN,
            num_heads=1,
            num_kv_heads=1,
            head_size=1,
            layers=(LayerConfig(), LayerConfig(kind="window", window=5)),
            hidden_act="silu",
            rms_norm_eps=1e-6,
            rope=RopeConfig(theta=1.0, rotary_size=1),
            tie_word_embeddings=True,
            attention_bias=False,
            output_bias=False,
            mlp_bias=False,
        ),
        cache=CacheConfig(
            block_size=block_size, num_blocks=num_blocks, dtype="float32", prefix_caching=False
        ),
        scheduler=SchedulerConfig(
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            max_model_len=max_model_len,
            policy="fcfs",
            overlap=True,
        ),
        parallel=ParallelConfig(executor="uniproc", device="cpu", threads=1),
        frontend=FrontendConfig(
            served_model_names=("tiny",),
            tokenizer="tiny",
            chat_template=None,
            max_logprobs=20,
            max_waiting_requests=10,
            max_waiting_tokens=1000,
            default_sampling=(),
            seed=0,
        ),
        attention_backend="trace",
        numerics="fast",
        log_level="info",
        notes=(),
    )


class TraceBackend:
    """Keeps a token id per slot, and gives back the sum of what its request has kept."""

    name = "trace"
    exact = True
    understands: frozenset[str] = frozenset()

    @classmethod
    def refuses(cls, spec: AttentionSpec) -> str | None:
        return None

    @classmethod
    def bytes_per_block(cls, spec: AttentionSpec, block_size: int) -> int:
        return 8 * block_size

    def view(self, blocks: Tensor, block_size: int) -> Tensor:
        return blocks.view(torch.int64).view(-1, block_size)

    def write(self, kv_cache: Tensor, key: Tensor, value: Tensor, meta: AttentionMetadata) -> None:
        kv_cache.view(-1)[meta.slot_mapping] = key

    def attend(self, query: Tensor, kv_cache: Tensor, meta: AttentionMetadata) -> Tensor:
        """``query`` is [V, HIDDEN]: what each token adds."""
        assert meta.host_query_lens is not None
        assert meta.host_seq_lens is not None
        assert meta.seq_lens.tolist() == meta.host_seq_lens
        assert meta.max_seq_len == max(meta.host_seq_lens)
        assert meta.max_query_len == max(meta.host_query_lens)
        begins = meta.query_start.tolist()
        lengths = [end - begin for begin, end in pairwise(begins)]
        assert lengths == meta.host_query_lens
        pieces = []
        for line, (query_len, seq_len) in enumerate(
            zip(meta.host_query_lens, meta.host_seq_lens, strict=True)
        ):
            tokens = kv_cache[meta.block_table[line].long()].view(-1)[:seq_len]
            pieces.append(contexts(query, tokens)[seq_len - query_len :])
        return torch.cat(pieces)


def contexts(adds: Tensor, tokens: Tensor) -> Tensor:
    """Hidden state of every position: a sum over tokens that depends on their order."""
    places = torch.arange(1, len(tokens) + 1, dtype=torch.float64)[:, None]
    return (adds[tokens] * torch.cos(places * 0.7)).cumsum(dim=0)


class TinyModel:
    """Two layers with a KV group each; only the second one's answer is used, after a check."""

    def __init__(self, poison: int | None = None) -> None:
        generator = torch.Generator().manual_seed(0)
        self.adds = torch.randn(VOCAB, HIDDEN, generator=generator, dtype=torch.float64)
        self.head = torch.randn(HIDDEN, VOCAB, generator=generator, dtype=torch.float64)
        self.head_rows: list[int] = []
        """Lines of each call of the head."""
        self._poison = poison
        self._layers = [TraceBackend(), TraceBackend()]

    def parameters(self) -> Iterator[Tensor]:
        yield self.adds
        yield self.head

    def buffers(self) -> Iterator[Tensor]:
        yield self.adds

    def attention_layers(self) -> list[tuple[AttentionSpec, TraceBackend]]:
        spec = AttentionSpec(
            num_heads=1, num_kv_heads=1, head_size=1, dtype=torch.float32, scale=1.0
        )
        return [(spec, backend) for backend in self._layers]

    def forward(self, token_ids: Tensor, positions: Tensor, ctx: ForwardContext) -> Tensor:
        found = []
        for layer, backend in enumerate(self._layers):
            meta, cache = ctx.attention[ctx.group_of[layer]], ctx.kv_caches[layer]
            backend.write(cache, token_ids, token_ids, meta)
            found.append(backend.attend(self.adds, cache, meta))
        assert torch.equal(*found)
        begins, seq_lens = ctx.attention[0].query_start, ctx.attention[0].seq_lens
        ends = positions[(begins[1:] - 1).long()]
        assert torch.equal(ends + 1, seq_lens.long())
        hidden = found[1].clone()
        if self._poison is not None:
            hidden[token_ids == self._poison] = torch.nan
        return hidden

    def compute_logits(self, hidden: Tensor) -> Tensor:
        self.head_rows.append(len(hidden))
        return (hidden @ self.head).float()

    def logits_of(self, tokens: list[int]) -> Tensor:
        """Raw logits after each of ``tokens``, without rows or KV."""
        return (contexts(self.adds, torch.tensor(tokens)) @ self.head).float()


def load_tiny(
    config: OctavoConfig, device: torch.device, progress: Callable[[int, int], None]
) -> TinyModel:
    progress(0, 100)
    progress(100, 100)
    return TinyModel()
