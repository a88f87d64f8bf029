from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octavo.config.model import RopeConfig
from octavo.kit.errors import CheckpointError, OperatorError, Unsupported
from octavo.resolve.facts import ModelFacts
from octavo.resolve.gguf import read_gguf_model
from tests.unit.checkpoint import build

TYPES = ("llama", "mistral", "qwen2", "qwen3")
SIZES = {
    "context_length": 512, "embedding_length": 32, "block_count": 2, "feed_forward_length": 64,
    "attention.head_count": 4, "attention.layer_norm_rms_epsilon": 1e-5,
}  # fmt: skip
TABLE = ("token_embd.weight", (4, 32), 0, 0, 512)


def read(tmp_path: Path, data: bytes) -> ModelFacts:
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    return read_gguf_model(path, name="tiny", model_types=TYPES, weight_format="gguf")


def model_file(
    kind: str = "llama", tensors: list[build.Tensor] | None = None, **changes: object
) -> bytes:
    sizes = {f"{kind}.{name}": value for name, value in SIZES.items()}
    said = {"general.architecture": kind, **sizes, **changes}
    said = {key: value for key, value in said.items() if value is not None}
    return build.gguf(said, [TABLE] if tensors is None else tensors)


def refusal(tmp_path: Path, data: bytes) -> str:
    with pytest.raises(OperatorError) as caught:
        read(tmp_path, data)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_llama_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, build.llama_gguf())

    model = found.model
    assert (model.name, model.path) == ("tiny", str(tmp_path / "m.gguf"))
    assert (model.model_type, model.architecture) == ("llama", "LlamaForCausalLM")
    assert (model.dtype, model.max_model_len, model.vocab_size) == ("float32", 512, 4)
    assert (model.hidden_size, model.intermediate_size, model.head_size) == (32, 64, 8)
    assert (model.num_heads, model.num_kv_heads, model.num_layers) == (4, 2, 2)
    assert model.rope == RopeConfig(theta=10_000.0, rotary_size=8)
    assert model.tie_word_embeddings
    assert not any((model.attention_bias, model.output_bias, model.mlp_bias))
    assert (model.bos_token_id, model.eos_token_ids) == (2, (1, 2))
    assert found.num_weights == 128


def test_tensors_say_which_biases_there_are_and_whether_embeddings_are_tied(
    tmp_path: Path,
) -> None:
    names = ["output.weight", "blk.0.attn_q.bias", "blk.0.attn_output.bias", "blk.0.ffn_down.bias"]
    tensors: list[build.Tensor] = [TABLE]
    tensors += [(name, (8,), 0, 512 + 32 * place, 32) for place, name in enumerate(names)]

    model = read(tmp_path, model_file("qwen2", tensors)).model

    assert model.architecture == "Qwen2ForCausalLM"
    assert (model.attention_bias, model.output_bias, model.mlp_bias) == (True, True, True)
    assert not model.tie_word_embeddings


def test_head_sizes_may_stand_apart(tmp_path: Path) -> None:
    sizes = {"qwen3.attention.key_length": 16, "qwen3.attention.value_length": 16}

    model = read(tmp_path, model_file("qwen3", **sizes)).model

    assert (model.head_size, model.rope.rotary_size) == (16, 16)
    sizes["qwen3.attention.value_length"] = 8
    assert "value_length is 8, expected the key length (16)" in refusal(
        tmp_path, model_file("qwen3", **sizes)
    )


def test_most_of_the_bytes_decide_the_dtype(tmp_path: Path) -> None:
    half = ("h", (512,), 1, 512, 1024)
    quantized = ("q", (2048,), 2, 1536, 1152)

    assert read(tmp_path, model_file(tensors=[TABLE, half])).model.dtype == "float16"
    assert read(tmp_path, model_file(tensors=[TABLE, half, quantized])).model.dtype == "bfloat16"


def test_scalings_of_positions_are_read(tmp_path: Path) -> None:
    scaling = {
        "llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0,
        "llama.rope.freq_base": 5e5,
    }  # fmt: skip

    model = read(tmp_path, model_file(**scaling)).model

    assert (model.rope.kind, model.rope.factor, model.rope.theta) == ("linear", 4.0, 5e5)
    assert model.max_model_len == 2048
    yarn = {
        **scaling, "llama.rope.scaling.type": "yarn", "llama.rope.scaling.attn_factor": 0.5,
        "llama.rope.scaling.original_context_length": 128,
    }  # fmt: skip
    model = read(tmp_path, model_file(**yarn)).model
    assert (model.rope.original_max_position, model.max_model_len) == (128, 512)
    assert model.rope.attention_factor == pytest.approx(0.5 * (1 + 0.1 * math.log(4)))
    spiral = {"llama.rope.scaling.type": "spiral"}
    assert "rope.scaling.type is 'spiral'" in refusal(tmp_path, model_file(**spiral))


def test_divisors_of_frequencies_are_read_from_their_tensor(tmp_path: Path) -> None:
    def file(kind: int, shape: tuple[int, ...], values: bytes) -> bytes:
        whole = model_file(tensors=[TABLE, ("rope_freqs.weight", shape, kind, 512, len(values))])
        return whole[: -len(values)] + values

    divisors = struct.pack("<4f", 1, 2, 3, 4)
    assert read(tmp_path, file(0, (4,), divisors)).model.rope.inverse_factors == (1, 2, 3, 4)
    assert "F32 of shape [3], expected F32 of [4]" in refusal(
        tmp_path, file(0, (3,), divisors[:12])
    )
    assert "F16 of shape [4]" in refusal(tmp_path, file(1, (4,), divisors[:8]))
    for bad in (0.0, -1.0, math.nan, math.inf):
        assert "not above 0" in refusal(tmp_path, file(0, (4,), struct.pack("<4f", 1, 1, 1, bad)))


def test_a_window_is_on_every_layer(tmp_path: Path) -> None:
    layers = read(tmp_path, model_file(**{"llama.attention.sliding_window": 9})).model.layers

    assert [layer.window for layer in layers] == [9, 9]
    layers = read(tmp_path, model_file(**{"llama.attention.sliding_window": 0})).model.layers
    assert [layer.window for layer in layers] == [None, None]


def test_sampling_defaults_may_be_in_the_file(tmp_path: Path) -> None:
    said = {"general.sampling.temp": 0.5, "general.sampling.top_k": 7}

    found = read(tmp_path, model_file(**said))

    assert found.default_sampling == (("temperature", 0.5), ("top_k", 7.0))
    assert found.sampling_file == "m.gguf"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"general.architecture": None}, "general.architecture is missing"),
        ({"general.architecture": "gpt2"}, "model type 'gpt2'; octavo has llama, qwen2, qwen3"),
        ({"llama.context_length": None}, "llama.context_length is missing"),
        ({"llama.context_length": "long"}, "llama.context_length is 'long'"),
        ({"llama.block_count": 0}, "llama.block_count is 0"),
        ({"llama.attention.head_count_kv": 3}, "a divisor of head_count (4)"),
        ({"llama.attention.layer_norm_rms_epsilon": None}, "rms_epsilon is missing"),
        ({"llama.rope.dimension_count": 3}, "rope.dimension_count is 3, expected an even number"),
        ({"llama.rope.dimension_count": 16}, "rope.dimension_count is 16"),
        ({"tokenizer.ggml.eos_token_id": 4}, "end of text 4 is outside the vocabulary of 4"),
        ({"llama.expert_count": 8}, "is a mixture of experts"),
    ],
)
def test_a_field_that_cannot_be_is_named(
    tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    assert reason in refusal(tmp_path, model_file(**changes))


def test_a_file_without_embeddings_is_no_language_model(tmp_path: Path) -> None:
    for table in ("other.weight", (4, 32)), ("token_embd.weight", (32,)):
        tensors: list[build.Tensor] = [(*table, 0, 0, 512)]
        assert "has no matrix token_embd.weight" in refusal(tmp_path, model_file(tensors=tensors))


def test_a_model_type_that_the_device_lacks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(model_file("qwen3"))

    with pytest.raises(Unsupported, match="octavo has llama"):
        read_gguf_model(path, name="x", model_types=("llama", "gemma"), weight_format="gguf")


WHOLE = build.llama_gguf()


@settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    changes=st.lists(st.tuples(st.integers(24, 800), st.binary(min_size=1, max_size=4)), max_size=3)
)
def test_any_file_is_read_or_refused(tmp_path: Path, changes: list[tuple[int, bytes]]) -> None:
    data = bytearray(WHOLE)
    for place, piece in changes:
        data[place : place + len(piece)] = piece

    try:
        read(tmp_path, bytes(data))
    except (CheckpointError, Unsupported) as error:
        message = str(error)
    else:
        message = ""
    assert "\n" not in message
