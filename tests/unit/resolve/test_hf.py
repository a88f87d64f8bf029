from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octavo.config.model import LayerConfig, RopeConfig
from octavo.kit.errors import CheckpointError, OperatorError, Unsupported
from octavo.resolve.facts import ModelFacts, count_weights
from octavo.resolve.hf import read_folder
from tests.unit.checkpoint import build

TYPES = ("llama", "mistral", "qwen2", "qwen3")
QWEN2 = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}
QWEN3 = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 8}
MISTRAL = {"model_type": "mistral", "architectures": ["MistralForCausalLM"]}


def read(path: Path, weight_format: str = "safetensors") -> ModelFacts:
    return read_folder(path, name="tiny", model_types=TYPES, weight_format=weight_format)


def facts(tmp_path: Path, **changes: object) -> ModelFacts:
    return read(build.folder(tmp_path, **changes))


def rope(tmp_path: Path, **scaling: object) -> tuple[RopeConfig, int]:
    model = facts(tmp_path, rope_scaling=scaling).model
    return model.rope, model.max_model_len


def refusal(tmp_path: Path, **changes: object) -> str:
    with pytest.raises(OperatorError) as caught:
        facts(tmp_path, **changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_llama_is_read(tmp_path: Path) -> None:
    found = facts(tmp_path)

    model = found.model
    assert (model.name, model.path, model.weight_format) == ("tiny", str(tmp_path), "safetensors")
    assert (model.model_type, model.architecture) == ("llama", "LlamaForCausalLM")
    assert (model.dtype, model.max_model_len, model.vocab_size) == ("bfloat16", 512, 100)
    assert (model.hidden_size, model.intermediate_size, model.head_size) == (32, 64, 8)
    assert (model.num_heads, model.num_kv_heads, model.num_layers) == (4, 2, 2)
    assert model.layers == (LayerConfig(), LayerConfig())
    assert model.rope == RopeConfig(theta=10_000.0, rotary_size=8)
    assert not any((model.tie_word_embeddings, model.attention_bias, model.output_bias))
    assert (model.bos_token_id, model.eos_token_ids, found.eos_sources) == (1, (2,), "config.json")
    assert found.num_weights == 2


def test_fields_with_a_usual_value_may_be_absent(tmp_path: Path) -> None:
    model = facts(
        tmp_path, num_key_value_heads=None, dtype=None, rms_norm_eps=None, eos_token_id=None,
        bos_token_id=None,
    ).model  # fmt: skip

    assert (model.num_kv_heads, model.dtype, model.rms_norm_eps) == (4, "float32", 1e-6)
    assert (model.bos_token_id, model.eos_token_ids) == (None, ())


def test_biases_are_facts_of_the_config_or_of_the_kind(tmp_path: Path) -> None:
    def biases(**changes: object) -> tuple[bool, bool, bool]:
        model = facts(tmp_path, **changes).model
        return model.attention_bias, model.output_bias, model.mlp_bias

    assert biases() == (False, False, False)
    assert biases(attention_bias=True, mlp_bias=True) == (True, True, True)
    assert biases(**QWEN2) == (True, False, False)
    assert biases(**QWEN3) == (False, False, False)
    assert biases(**MISTRAL, attention_bias=True) == (False, False, False)


def test_the_old_name_of_the_dtype_is_known(tmp_path: Path) -> None:
    assert facts(tmp_path, dtype=None, torch_dtype="float16").model.dtype == "float16"
    assert facts(tmp_path, dtype="torch.float32").model.dtype == "float32"


def windows(tmp_path: Path, **changes: object) -> list[int | None]:
    return [layer.window for layer in facts(tmp_path, **changes).model.layers]


def test_windows_are_those_of_the_kind(tmp_path: Path) -> None:
    sliding = {"sliding_window": 9, "use_sliding_window": True}

    assert windows(tmp_path, sliding_window=9) == [None, None]
    assert windows(tmp_path, **MISTRAL) == [None, None]
    assert windows(tmp_path, **MISTRAL, sliding_window=9) == [9, 9]
    assert windows(tmp_path, **QWEN2, sliding_window=9) == [None, None]
    assert windows(tmp_path, **QWEN2, use_sliding_window=True) == [None, None]
    assert windows(tmp_path, **QWEN2, **sliding) == [None, None]
    assert windows(tmp_path, **QWEN2, **sliding, max_window_layers=1) == [None, 9]
    kinds = ["sliding_attention", "full_attention"]
    assert windows(tmp_path, **QWEN3, **sliding, layer_types=kinds) == [9, None]


def test_layer_types_must_fit_the_layers(tmp_path: Path) -> None:
    sliding = {**QWEN2, "sliding_window": 9, "use_sliding_window": True}

    assert "layer_types is ['full_attention'], expected a list of 2" in refusal(
        tmp_path, **sliding, layer_types=["full_attention"]
    )
    assert "layer_types has linear; octavo has full_attention" in refusal(
        tmp_path, **sliding, layer_types=["full_attention", "linear"]
    )


@pytest.mark.parametrize("kind", ["type", "rope_type"])
def test_linear_and_dynamic_scaling_stretch_the_context(tmp_path: Path, kind: str) -> None:
    linear, longest = rope(tmp_path, **{kind: "linear"}, factor=4)

    assert (linear.kind, linear.factor, longest) == ("linear", 4.0, 2048)
    dynamic, longest = rope(tmp_path, **{kind: "dynamic"}, factor=2.5)
    assert (dynamic.kind, dynamic.original_max_position, longest) == ("dynamic", 512, 1280)


def test_llama3_scaling_keeps_the_context(tmp_path: Path) -> None:
    found, longest = rope(
        tmp_path, rope_type="llama3", factor=8, low_freq_factor=1, high_freq_factor=4,
        original_max_position_embeddings=64,
    )  # fmt: skip

    assert found == RopeConfig(
        theta=1e4, rotary_size=8, kind="llama3", factor=8.0, low_freq_factor=1.0,
        high_freq_factor=4.0, original_max_position=64,
    )  # fmt: skip
    assert longest == 512
    wrong = {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4}
    assert "high_freq_factor is 4, expected more than low_freq_factor (4.0)" in refusal(
        tmp_path, rope_scaling=wrong
    )


def test_yarn_scaling_stretches_the_trained_context(tmp_path: Path) -> None:
    found, longest = rope(
        tmp_path, rope_type="yarn", factor=4, original_max_position_embeddings=512, beta_fast=16
    )

    assert (found.kind, found.original_max_position, longest) == ("yarn", 512, 2048)
    assert (found.beta_fast, found.beta_slow, found.attention_factor) == (16.0, 1.0, None)
    assert rope(tmp_path, type="yarn", factor=4, attention_factor=0.5)[0].attention_factor == 0.5
    weighed, _ = rope(tmp_path, type="yarn", factor=4, mscale=1.0, mscale_all_dim=1.0)
    assert weighed.attention_factor == 1.0
    assert "truncate is False" in refusal(
        tmp_path, rope_scaling={"type": "yarn", "factor": 4, "truncate": False}
    )


def test_longrope_has_two_sets_of_factors(tmp_path: Path) -> None:
    factors = {"short_factor": [1, 1, 1, 1], "long_factor": [1, 2, 3, 4]}

    found = facts(
        tmp_path, rope_scaling={"type": "su", **factors}, original_max_position_embeddings=128
    )

    assert found.model.rope.kind == "longrope"
    assert (found.model.rope.factor, found.model.rope.original_max_position) == (4.0, 128)
    assert found.longrope == ((1.0, 1.0, 1.0, 1.0), (1.0, 2.0, 3.0, 4.0))
    own = {"type": "longrope", **factors, "attention_factor": 2}
    assert facts(tmp_path, rope_scaling=own).model.rope.attention_factor == 2.0
    short = {"type": "longrope", "short_factor": [1], "long_factor": [1]}
    assert "short_factor is [1], expected a list of 4 numbers" in refusal(
        tmp_path, rope_scaling=short
    )
    bad = {"type": "longrope", "short_factor": [1, 1, 0, 1], "long_factor": [1]}
    assert "short_factor.2 is 0, expected a number from" in refusal(tmp_path, rope_scaling=bad)


def test_rope_parameters_of_newer_configs_are_read(tmp_path: Path) -> None:
    new = {"rope_theta": 5e5, "rope_type": "default", "partial_rotary_factor": 0.5}

    assert facts(tmp_path, rope_parameters=new).model.rope == RopeConfig(theta=5e5, rotary_size=4)
    assert facts(tmp_path, rope_theta=7.0).model.rope.theta == 7.0
    assert "rope_type is 'spiral'; octavo has default, linear" in refusal(
        tmp_path, rope_parameters={"rope_type": "spiral"}
    )
    assert "has rope_parameters per kind of layer" in refusal(
        tmp_path, rope_parameters={"full_attention": {"rope_type": "default"}}
    )
    assert "an even part of head size 8" in refusal(tmp_path, partial_rotary_factor=0.4)


def write(path: Path, name: str, value: object) -> None:
    (path / name).write_text(json.dumps(value))


def test_ends_of_text_come_from_every_file(tmp_path: Path) -> None:
    build.folder(tmp_path)
    write(tmp_path, "generation_config.json", {"eos_token_id": [7, 2]})
    write(
        tmp_path,
        "tokenizer_config.json",
        {
            "eos_token": "<e>",
            "added_tokens_decoder": {"8": {"content": "x"}, "9": {"content": "<e>"}},
        },
    )

    found = read(tmp_path)

    assert found.model.eos_token_ids == (7, 2, 9)
    assert found.eos_sources == "generation_config.json, config.json, tokenizer_config.json"


@pytest.mark.parametrize(
    ("added", "ids"),
    [
        ([{"id": 5, "content": "<e>"}], (2, 5)),
        ([{"id": 5, "content": "x"}], (2,)),
        ([{"id": "5", "content": "<e>"}], (2,)),
        (["<e>"], (2,)),
        (None, (2,)),
    ],
)
def test_the_tokenizers_end_is_looked_up_in_its_tokens(
    tmp_path: Path, added: object, ids: tuple[int, ...]
) -> None:
    build.folder(tmp_path)
    write(tmp_path, "tokenizer_config.json", {"eos_token": {"content": "<e>"}})
    write(tmp_path, "tokenizer.json", {"added_tokens": added})

    assert read(tmp_path).model.eos_token_ids == ids


def test_an_end_outside_the_vocabulary_is_refused(tmp_path: Path) -> None:
    assert "eos_token_id 100 is outside the vocabulary of 100" in refusal(
        tmp_path, eos_token_id=100
    )


def test_sampling_defaults_come_from_the_generation_config(tmp_path: Path) -> None:
    build.folder(tmp_path)
    write(tmp_path, "generation_config.json", {"temperature": 0.7, "top_k": 20, "top_p": None})

    found = read(tmp_path)

    assert found.default_sampling == (("temperature", 0.7), ("top_k", 20.0))
    assert found.sampling_file == "generation_config.json"
    write(tmp_path, "generation_config.json", {"top_p": 1.5})
    with pytest.raises(CheckpointError, match=r"generation_config\.json: top_p is 1\.5, expected"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"model_type": "gpt2"},
            "is of model type 'gpt2'; octavo has llama, mistral, qwen2, qwen3",
        ),
        ({"model_type": None}, "config.json: model_type is missing, expected a text"),
        ({"architectures": None}, "architectures is missing"),
        ({"architectures": "Llama"}, "architectures is 'Llama', expected a list of texts"),
        ({"hidden_size": None}, "hidden_size is missing, expected a whole number"),
        ({"hidden_size": "32"}, "hidden_size is '32'"),
        ({"hidden_size": True}, "hidden_size is True"),
        ({"hidden_size": 33}, "hidden_size is 33, expected a multiple of num_attention_heads (4)"),
        ({"hidden_size": 1 << 40}, "hidden_size is 1099511627776"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0"),
        ({"num_key_value_heads": 3}, "a divisor of num_attention_heads (4)"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        ({"vocab_size": 1.5}, "vocab_size is 1.5"),
        ({"max_position_embeddings": -1}, "max_position_embeddings is -1"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps is nan"),
        ({"rms_norm_eps": "1e-5"}, "rms_norm_eps is '1e-5', expected a number"),
        ({"dtype": "int4"}, "dtype is 'int4', expected float32 or bfloat16 or float16"),
        ({"hidden_act": ""}, "hidden_act is ''"),
        ({"attention_bias": 1}, "attention_bias is 1, expected true or false"),
        ({"eos_token_id": [-1]}, "eos_token_id is [-1], expected a token id or a list"),
        ({"eos_token_id": "</s>"}, "eos_token_id is '</s>'"),
        ({"rope_scaling": [1]}, "rope_scaling is [1], expected an object"),
        ({"rope_scaling": {"type": "linear"}}, "rope_scaling.factor is missing"),
        ({"quantization_config": {}}, "quantization_config.quant_method is missing"),
        ({"model_type": "qwen3"}, "head_dim is missing"),
    ],
)
def test_a_field_that_cannot_be_is_named(
    tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    message = refusal(tmp_path, **changes)

    assert message.startswith(str(tmp_path / "config.json"))
    assert reason in message


def test_a_quantized_checkpoint_names_its_method(tmp_path: Path) -> None:
    found = facts(tmp_path, quantization_config={"quant_method": "awq"})

    assert found.model.quantization == "awq"


def test_whole_numbers_may_be_written_as_floats(tmp_path: Path) -> None:
    assert facts(tmp_path, vocab_size=100.0).model.vocab_size == 100


def test_random_weights_need_no_file(tmp_path: Path) -> None:
    build.folder(tmp_path)
    (tmp_path / "model.safetensors").unlink()

    found = read(tmp_path, "dummy")

    assert found.model.weight_format == "dummy"
    assert found.num_weights == count_weights(found.model)
    with pytest.raises(CheckpointError, match=r"holds no model\.safetensors"):
        read(tmp_path)


def test_a_folder_without_a_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json: No such file"):
        read(tmp_path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
NAMES = [
    *build.LLAMA_CONFIG, "head_dim", "rope_theta", "rope_scaling", "rope_parameters",
    "sliding_window", "use_sliding_window", "max_window_layers", "layer_types", "attention_bias",
    "mlp_bias", "tie_word_embeddings", "quantization_config", "partial_rotary_factor",
    "torch_dtype", "hidden_act",
]  # fmt: skip


@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    kind=st.sampled_from(TYPES),
    changes=st.dictionaries(st.sampled_from(NAMES), JSON, max_size=3),
    scaling=st.dictionaries(
        st.sampled_from(["type", "rope_type", "factor", "rope_theta", "mscale"]),
        JSON | st.sampled_from(["linear", "yarn", "llama3", "longrope", "dynamic"]),
    ),
)
def test_any_config_is_read_or_refused(
    tmp_path: Path, kind: str, changes: dict[str, object], scaling: dict[str, object]
) -> None:
    said = {"model_type": kind, "head_dim": 8, "rope_scaling": scaling, **changes}
    build.folder(tmp_path, **said)

    try:
        model = read(tmp_path).model
    except (CheckpointError, Unsupported) as error:
        message = str(error)
    else:
        message = ""
        assert model.num_heads % model.num_kv_heads == 0
        assert 0 < model.rope.rotary_size <= model.head_size
    assert "\n" not in message
