"""Checkpoints to parameters: complete or refused, and the error names the weight and the file."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from octavo.config.octavo import OctavoConfig
from octavo.device.loading.loader import load_model
from octavo.kit.errors import CheckpointError, OctavoError, Unsupported
from tests.reference.driver import Driver, Text, compute
from tests.reference.tiny import config_of, save_tiny

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny("llama", tmp_path_factory.mktemp("loading"))


@pytest.fixture
def edited(folder: Path, tmp_path: Path) -> Callable[..., OctavoConfig]:
    """Resolve the intact checkpoint, and then change its weights."""

    def edit(change: Callable[[dict[str, torch.Tensor]], object]) -> OctavoConfig:
        copy = tmp_path / "model"
        shutil.copytree(folder, copy)
        config = config_of(copy)
        tensors = load_file(copy / "model.safetensors")
        change(tensors)
        save_file(tensors, copy / "model.safetensors")
        return config

    return edit


def logits(config: OctavoConfig) -> torch.Tensor:
    text = Text(list(range(5, 40)))
    compute(Driver(load_model(config, CPU, None), block_size=16), [text], chunk=64)
    return torch.stack(text.logits)


def test_progress_ends_at_its_total(folder: Path) -> None:
    seen: list[tuple[int, int]] = []

    load_model(config_of(folder), CPU, lambda done, total: seen.append((done, total)))

    assert seen[0][0] == 0
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] > 0


def test_a_model_computes_no_gradients(folder: Path) -> None:
    model = load_model(config_of(folder), CPU, None)

    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_missing_weights_name_themselves_and_the_folder(edited) -> None:
    config = edited(lambda tensors: tensors.pop("model.layers.1.mlp.up_proj.weight"))

    with pytest.raises(
        CheckpointError, match=r"model: 1 weights are missing: model\.layers\.1\.mlp"
    ):
        load_model(config, CPU, None)


def test_a_weight_without_a_place_names_itself_and_its_file(edited) -> None:
    config = edited(lambda tensors: tensors.update({"model.vision.weight": torch.ones(3)}))

    with pytest.raises(
        CheckpointError, match=r"model\.safetensors: weight 'model\.vision\.weight' of shape \[3\]"
    ):
        load_model(config, CPU, None)


def test_a_misshapen_weight_names_both_shapes(edited) -> None:
    config = edited(lambda tensors: tensors.update({"model.norm.weight": torch.ones(7)}))

    with pytest.raises(CheckpointError, match=r"'model\.norm\.weight' has shape \[7\].*\[96\]"):
        load_model(config, CPU, None)


def test_a_weight_of_integers_is_refused(edited) -> None:
    config = edited(
        lambda tensors: tensors.update({"model.norm.weight": torch.ones(96, dtype=torch.int32)})
    )

    with pytest.raises(CheckpointError, match=r"'model\.norm\.weight' has type I32"):
        load_model(config, CPU, None)


def test_frequencies_that_a_model_computes_itself_are_ignored(edited, folder: Path) -> None:
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    config = edited(lambda tensors: tensors.update({name: torch.ones(8)}))

    assert torch.equal(logits(config), logits(config_of(folder)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_are_converted_to_the_dtype_of_the_model(edited, folder: Path, dtype) -> None:
    intact = logits(config_of(folder))

    def convert(tensors: dict[str, torch.Tensor]) -> None:
        tensors.update({name: tensor.to(dtype) for name, tensor in tensors.items()})

    found = logits(edited(convert))

    assert found.dtype == torch.float32
    torch.testing.assert_close(found, intact, atol=2.0 if dtype == torch.bfloat16 else 0.3, rtol=0)


def test_dummy_weights_depend_on_names_alone(folder: Path) -> None:
    config = config_of(folder, load_format="dummy")

    first, second = logits(config), logits(config)

    assert torch.equal(first, second)
    assert first.isfinite().all()
    assert first.std() > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "gpt9"}, "model_type 'gpt9': octavo has .*llama"),
        ({"architecture": "LlamaForVision"}, "architecture 'LlamaForVision'.*LlamaForCausalLM"),
    ],
)
def test_an_unknown_model_is_refused_with_what_there_is(folder: Path, change, message) -> None:
    config = config_of(folder)

    with pytest.raises(Unsupported, match=message):
        load_model(replace(config, model=replace(config.model, **change)), CPU, None)


GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "model.layers.": "blk.",
}


Q8_0 = gguf.GGMLQuantizationType.Q8_0


def write_gguf(folder: Path, path: Path) -> None:
    """Convert a Llama folder as llama.cpp's converter does, without its tokenizer."""
    writer = gguf.GGUFWriter(path, "llama")
    for name, tensor in load_file(folder / "model.safetensors").items():
        values = tensor.numpy()
        for part, heads in (("q_proj", 6), ("k_proj", 2)):
            if part in name:  # halves of a head become pairs
                pairs = values.reshape(heads, 2, -1, *values.shape[1:])
                values = pairs.swapaxes(1, 2).reshape(values.shape)
        if "v_proj" in name:
            writer.add_tensor(gguf_name(name), gguf.quantize(values, Q8_0), raw_dtype=Q8_0)
        else:
            writer.add_tensor(gguf_name(name), np.ascontiguousarray(values))
    writer.add_block_count(3)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_name(name: str) -> str:
    for theirs, ours in GGUF_NAMES.items():
        name = name.replace(theirs, ours)
    return name


def test_a_gguf_file_gives_the_same_model_as_its_source(
    edited, folder: Path, tmp_path: Path
) -> None:
    def round_values(tensors: dict[str, torch.Tensor]) -> None:
        for name in tensors:
            if "v_proj" in name:
                packed = gguf.quantize(tensors[name].numpy(), Q8_0)
                tensors[name] = torch.from_numpy(gguf.dequantize(packed, Q8_0))

    config = edited(round_values)
    path = tmp_path / "model.gguf"
    write_gguf(folder, path)
    from_gguf = replace(config, model=replace(config.model, path=str(path), weight_format="gguf"))

    assert torch.equal(logits(from_gguf), logits(config))


def test_a_truncated_gguf_file_is_refused(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(folder, path)
    config = config_of(folder)
    path.write_bytes(path.read_bytes()[:-1000])

    with pytest.raises(OctavoError, match=r"model\.gguf"):
        load_model(
            replace(config, model=replace(config.model, path=str(path), weight_format="gguf")),
            CPU,
            None,
        )
