"""A complete configuration of a tiny model that no file holds."""

from __future__ import annotations

from octavo.config.cache import CacheConfig
from octavo.config.frontend import FrontendConfig
from octavo.config.model import LayerConfig, ModelConfig, RopeConfig
from octavo.config.octavo import OctavoConfig
from octavo.config.parallel import ParallelConfig
from octavo.config.scheduler import SchedulerConfig

_MODEL = ModelConfig(
    name="fake",
    path="fake",
    weight_format="dummy",
    model_type="llama",
    architecture="LlamaForCausalLM",
    dtype="float32",
    max_model_len=256,
    vocab_size=997,
    hidden_size=16,
    intermediate_size=32,
    num_heads=2,
    num_kv_heads=1,
    head_size=8,
    layers=(LayerConfig(), LayerConfig()),
    hidden_act="silu",
    rms_norm_eps=1e-5,
    rope=RopeConfig(theta=10_000.0, rotary_size=8),
    tie_word_embeddings=True,
    attention_bias=False,
    output_bias=False,
    mlp_bias=False,
    eos_token_ids=(2,),
)

_FRONTEND = FrontendConfig(
    served_model_names=("fake",),
    tokenizer="fake",
    chat_template=None,
    max_logprobs=20,
    max_waiting_requests=10_000,
    max_waiting_tokens=10_000_000,
    default_sampling=(),
    seed=0,
)


def fake_scheduler_config(
    *,
    max_num_batched_tokens: int = 64,
    max_num_seqs: int = 8,
    max_model_len: int = 256,
    policy: str = "fcfs",
    overlap: bool = True,
) -> SchedulerConfig:
    """Return limits that a test can reach."""
    return SchedulerConfig(
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        max_model_len=max_model_len,
        policy=policy,
        overlap=overlap,
    )


def fake_config(
    scheduler: SchedulerConfig | None = None,
    *,
    block_size: int = 4,
    num_blocks: int = 257,
    prefix_caching: bool = True,
    executor: str = "uniproc",
) -> OctavoConfig:
    """Return a configuration for ``FakeWorker``."""
    return OctavoConfig(
        model=_MODEL,
        cache=CacheConfig(
            block_size=block_size,
            num_blocks=num_blocks,
            dtype="float32",
            prefix_caching=prefix_caching,
        ),
        scheduler=scheduler or fake_scheduler_config(),
        parallel=ParallelConfig(executor=executor, device="cpu", threads=1),
        frontend=_FRONTEND,
        attention_backend="fake",
        numerics="fast",
        log_level="warning",
        notes=(),
    )
