from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.config.args import EngineArgs
from octavo.config.model import LayerConfig, RopeConfig
from octavo.kit.errors import ConfigError, OperatorError, Unsupported
from octavo.resolve.draft import Note
from octavo.resolve.resolver import finished, resolve
from octavo.resolve.rules.memory import size
from tests.unit.resolve.make import CPU, EXTENSIONS, FACTS, MODEL, decided

ACCELERATOR = replace(
    CPU,
    name="cuda",
    dtypes=("bfloat16", "float16", "float32"),
    prefers_checkpoint_dtype=True,
    default_max_num_seqs=256,
    default_max_num_batched_tokens=8192,
    max_kv_cache_bytes=None,
    claimable_memory_bytes=16 << 30,
)


def reason(draft: object, option: str) -> str:
    notes: tuple[Note, ...] = draft.notes  # type: ignore[attr-defined]
    [note] = [note for note in notes if note.option == option]
    return str(note)


def test_a_configuration_is_complete_and_explained() -> None:
    config = resolve(EngineArgs(), FACTS, CPU, EXTENSIONS)

    assert config.model == replace(MODEL, dtype="float32")
    assert (config.cache.block_size, config.cache.dtype) == (16, "float32")
    assert config.cache.prefix_caching
    assert config.scheduler.max_num_seqs == 64
    assert config.scheduler.max_num_batched_tokens == 512
    assert config.scheduler.max_model_len == 512
    assert (config.scheduler.policy, config.scheduler.overlap) == ("fcfs", True)
    assert (config.parallel.executor, config.parallel.device) == ("uniproc", "cpu")
    assert config.parallel.threads == 4
    assert (config.attention_backend, config.numerics, config.log_level) == ("fast", "fast", "info")
    assert config.frontend.served_model_names == ("tiny",)
    assert config.frontend.tokenizer == "/models/tiny"
    assert (config.frontend.max_logprobs, config.frontend.seed) == (20, 0)
    assert config.frontend.max_waiting_requests == 1024
    assert config.frontend.max_waiting_tokens == 1 << 20
    assert "dtype: float32, which a cpu computes fastest and most exactly" in config.notes


def test_what_was_said_is_taken_and_not_noted() -> None:
    draft = decided(
        dtype="float16", max_model_len=64, seed=7, executor="multiproc", threads=1, block_size=32,
        enable_prefix_caching=False, max_num_seqs=3, max_num_batched_tokens=9, numerics="fast",
        scheduling_policy="priority", async_scheduling=False, attention_backend="other",
        served_model_name=("a", "b"), tokenizer="/t", max_logprobs=5, max_waiting_requests=0,
        log_level="debug", chat_template="{{ x }}", gpu_memory_utilization=0.5, device="cpu",
        kv_cache_memory_bytes=1 << 20,
    )  # fmt: skip

    config = finished(draft)
    assert (config.model.dtype, config.model.max_model_len) == ("float16", 64)
    assert (config.frontend.seed, config.parallel.executor, config.parallel.threads) == (
        7, "multiproc", 1,
    )  # fmt: skip
    assert (config.cache.block_size, config.cache.prefix_caching) == (32, False)
    assert (config.scheduler.max_num_seqs, config.scheduler.max_num_batched_tokens) == (3, 9)
    assert (config.scheduler.policy, config.scheduler.overlap) == ("priority", False)
    assert config.attention_backend == "other"
    assert config.frontend.served_model_names == ("a", "b")
    assert (config.frontend.tokenizer, config.frontend.chat_template) == ("/t", "{{ x }}")
    assert (config.frontend.max_logprobs, config.frontend.max_waiting_requests) == (5, 0)
    assert config.log_level == "debug"
    assert {note.option for note in draft.notes} == {"load_format", "eos_token_ids"}


def test_accelerators_keep_the_checkpoints_dtype_where_they_have_it() -> None:
    old = replace(ACCELERATOR, dtypes=("float16", "float32"))

    assert reason(decided(platform=ACCELERATOR), "dtype") == "dtype: bfloat16, the checkpoint's"
    assert "float16, since a processor has no bfloat16" in reason(decided(platform=old), "dtype")
    assert decided(dtype="auto").model.dtype == "float32"
    with pytest.raises(ConfigError, match="dtype='bfloat16': must be one of float16, float32"):
        decided(platform=old, dtype="bfloat16")


def test_a_context_beyond_the_models_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be at most 512, the longest context of tiny"):
        decided(max_model_len=513)


def test_windows_as_wide_as_the_context_are_dropped() -> None:
    layers = (LayerConfig(window=100), LayerConfig(window=512), LayerConfig())
    facts = replace(FACTS, model=replace(MODEL, layers=layers))

    draft = decided(facts)

    assert [layer.window for layer in draft.model.layers] == [100, None, None]
    assert "since it holds the whole context of 512" in reason(draft, "sliding_window")
    assert [layer.window for layer in decided(facts, max_model_len=100).model.layers] == [None] * 3


def test_the_longest_text_chooses_between_two_sets_of_factors() -> None:
    rope = RopeConfig(theta=1e4, rotary_size=4, kind="longrope", original_max_position=100)
    facts = replace(FACTS, model=replace(MODEL, rope=rope), longrope=((1.0, 2.0), (3.0, 4.0)))

    assert decided(facts).model.rope.inverse_factors == (3.0, 4.0)
    assert decided(facts, max_model_len=100).model.rope.inverse_factors == (1.0, 2.0)


def test_a_model_without_an_end_of_text_is_noted() -> None:
    facts = replace(FACTS, model=replace(MODEL, eos_token_ids=()))

    assert "none, so that answers end by length" in reason(decided(facts), "eos_token_ids")


def test_sampling_defaults_are_the_models_unless_neutral_ones_are_asked_for() -> None:
    facts = replace(FACTS, default_sampling=(("top_k", 5.0),), sampling_file="g.json")

    draft = decided(facts)

    assert draft.default_sampling == (("top_k", 5.0),)
    assert reason(draft, "generation_config") == "generation_config: top_k=5, from g.json"
    assert decided(facts, generation_config="vllm").default_sampling == ()


def test_numerics_are_exact_where_the_platform_is() -> None:
    assert decided(platform=replace(CPU, has_exact_path=True)).numerics == "exact"
    with pytest.raises(ConfigError, match="numerics='exact': is not to be had on cpu"):
        decided(numerics="exact")


def test_the_first_preferred_backend_that_is_installed_is_taken() -> None:
    only = replace(EXTENSIONS, attention_backends=("other", "plain"))
    none = replace(EXTENSIONS, attention_backends=("other",))

    assert decided(extensions=only).attention_backend == "plain"
    assert decided(extensions=none, attention_backend="other").attention_backend == "other"
    with pytest.raises(Unsupported, match="no attention backend for it"):
        decided(extensions=none)


def test_limits_of_a_step_follow_each_other() -> None:
    few, many = decided(max_num_batched_tokens=32), decided(max_num_seqs=5000)

    assert few.max_num_seqs == 32
    assert many.max_num_batched_tokens == 5000
    with pytest.raises(ConfigError, match="must be at least max_num_seqs"):
        decided(max_num_seqs=33, max_num_batched_tokens=32)


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({"dtype": "int8"}, "dtype='int8': must be one of auto, float32"),
        ({"max_model_len": 0}, "max_model_len=0: must be from 2"),
        ({"max_model_len": 1}, "max_model_len=1: must be from 2"),
        ({"seed": -1}, "seed=-1"),
        ({"executor": "ray"}, "must be one of multiproc, uniproc"),
        ({"threads": 0}, "threads=0"),
        ({"block_size": 24}, "block_size=24: must be one of 1, 2, 4, 8, 16, 32, 64, 128"),
        ({"block_size": 256}, "block_size=256"),
        ({"gpu_memory_utilization": 1.1}, r"must be from 0\.01 to 1\.0"),
        ({"gpu_memory_utilization": float("nan")}, "gpu_memory_utilization=nan"),
        ({"max_num_seqs": 0}, "max_num_seqs=0"),
        ({"max_num_batched_tokens": 0}, "max_num_batched_tokens=0"),
        ({"scheduling_policy": "sjf"}, "must be one of fcfs, priority"),
        ({"attention_backend": "flash"}, "must be one of fast, other, plain"),
        ({"numerics": "loose"}, "must be one of exact, fast"),
        ({"generation_config": "/x"}, "must be one of auto, vllm"),
        ({"served_model_name": ("a", "a")}, "must be different names"),
        ({"served_model_name": ("",)}, "none of them empty"),
        ({"max_logprobs": -1}, "max_logprobs=-1"),
        ({"max_waiting_requests": -1}, "max_waiting_requests=-1"),
        ({"log_level": "trace"}, "must be one of debug, info"),
        ({"kv_cache_memory_bytes": 1}, "kv_cache_memory_bytes=1: must be from"),
    ],
)
def test_a_value_out_of_range_is_one_line(said: dict[str, object], match: str) -> None:
    with pytest.raises(ConfigError, match=match) as caught:
        decided(**said)

    assert "\n" not in str(caught.value)


def test_what_device_code_cannot_load_is_refused() -> None:
    quantized = replace(FACTS, model=replace(MODEL, quantization="awq"))

    with pytest.raises(Unsupported, match="is quantized with 'awq'; octavo has unquantized"):
        decided(quantized)
    with pytest.raises(Unsupported, match="format 'safetensors'; octavo loads gguf"):
        decided(extensions=replace(EXTENSIONS, weight_formats=("gguf",)))
    with pytest.raises(ConfigError, match="none, since nothing is installed"):
        decided(extensions=replace(EXTENSIONS, executors=()), executor="uniproc")


BYTES_PER_BLOCK = 2 * 2 * 2 * 8 * 4 * 16  # layers, keys and values, heads, size, float32, tokens


def test_the_plan_counts_every_byte() -> None:
    untied = replace(FACTS, model=replace(MODEL, tie_word_embeddings=False))
    plan = decided().memory

    assert decided(untied).memory.weights_bytes == 4 * 10_000
    assert plan.weights_bytes == 4 * (10_000 + 100 * 32)  # a tied head has its own copy
    assert plan.rope_bytes == 512 * 12 * 4
    assert plan.bytes_per_block == BYTES_PER_BLOCK
    assert plan.num_blocks == 64 * 32 + 1
    assert sum(plan.regions().values()) == plan.total_bytes
    assert plan.limit_bytes == int(0.9 * (8 << 30))


@pytest.mark.parametrize(
    ("platform", "said", "num_blocks", "why"),
    [
        (CPU, {}, 64 * 32 + 1, "all that 64 requests of the longest context fill"),
        (replace(CPU, max_kv_cache_bytes=1 << 20), {}, 256, "the most it takes unasked on cpu"),
        (CPU, {"kv_cache_memory_bytes": 1 << 20}, 256, None),
    ],
)
def test_the_cache_takes_the_least_of_its_limits(
    platform: object, said: dict[str, object], num_blocks: int, why: str | None
) -> None:
    draft = decided(platform=platform, **said)  # type: ignore[arg-type]

    assert draft.memory.num_blocks == num_blocks
    if why is None:
        assert "kv_cache_memory_bytes" not in {note.option for note in draft.notes}
    else:
        assert why in reason(draft, "kv_cache_memory_bytes")


def test_utilization_bounds_the_cache() -> None:
    big = replace(FACTS, model=replace(MODEL, max_model_len=1 << 20))
    platform = replace(ACCELERATOR, claimable_memory_bytes=8 << 30)

    plan = decided(big, platform, gpu_memory_utilization=0.5, max_num_seqs=64).memory

    assert plan.limit_bytes - plan.bytes_per_block < plan.total_bytes <= plan.limit_bytes
    assert plan.limit_bytes == 4 << 30


def test_a_context_that_does_not_fit_is_lowered_unless_it_was_asked_for() -> None:
    draft = decided(kv_cache_memory_bytes=9 * BYTES_PER_BLOCK)

    assert draft.model.max_model_len == 8 * 16
    assert draft.scheduler.max_model_len == 8 * 16
    assert "lowered from 512" in str(draft.notes)
    with pytest.raises(ConfigError, match="Lower --max-model-len to 128, or raise --kv-cache-mem"):
        decided(kv_cache_memory_bytes=9 * BYTES_PER_BLOCK, max_model_len=129)
    assert decided(kv_cache_memory_bytes=9 * BYTES_PER_BLOCK, max_model_len=128)


def test_a_cache_for_no_request_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"for 0 tokens\. Raise --kv-cache-memory-bytes to"):
        decided(kv_cache_memory_bytes=BYTES_PER_BLOCK)
    with pytest.raises(ConfigError, match=r"Set --kv-cache-memory-bytes .*, or raise --gpu-mem"):
        decided(platform=replace(CPU, max_kv_cache_bytes=BYTES_PER_BLOCK))


def test_a_model_that_does_not_fit_says_what_it_takes() -> None:
    big = replace(FACTS, num_weights=4 << 30)

    with pytest.raises(ConfigError, match=r"needs weights 16\.0 GiB.*8\.0 GiB are free") as caught:
        decided(big)
    assert "--dtype bfloat16" in str(caught.value)
    with pytest.raises(ConfigError, match=r"or --max-num-batched-tokens\.$"):
        decided(big, dtype="bfloat16")
    with pytest.raises(ConfigError, match=r"Lower --kv-cache-memory-bytes\.$"):
        decided(kv_cache_memory_bytes=9 << 30)


def test_sizes_are_in_the_unit_a_person_would_choose() -> None:
    assert [size(n) for n in (0, 1023, 1536, 1 << 20, 5 << 30, 3 << 50)] == [
        "0 B", "1023 B", "1.5 KiB", "1.0 MiB", "5.0 GiB", "3072.0 TiB",
    ]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    max_model_len=st.none() | st.integers(1, 600),
    block_size=st.none() | st.sampled_from([1, 2, 8, 16, 128]),
    kv_cache_memory_bytes=st.none() | st.integers(1, 1 << 24),
    max_num_seqs=st.none() | st.integers(1, 300),
    max_num_batched_tokens=st.none() | st.integers(1, 4000),
    gpu_memory_utilization=st.none() | st.floats(0, 1),
    available=st.integers(1, 1 << 33),
)
def test_one_request_of_the_longest_context_always_fits(
    available: int, **said: float | None
) -> None:
    platform = replace(CPU, available_memory_bytes=available, claimable_memory_bytes=available)

    try:
        config = resolve(EngineArgs(**said), FACTS, platform, EXTENSIONS)  # type: ignore[arg-type]
    except OperatorError:
        return

    per_request = -(-config.model.max_model_len // config.cache.block_size)
    assert per_request <= config.cache.num_blocks - 1
    assert config.scheduler.max_model_len == config.model.max_model_len <= 512
