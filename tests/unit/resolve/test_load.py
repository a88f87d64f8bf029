from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from octavo.config.args import EngineArgs
from octavo.kit.env import Environment
from octavo.kit.errors import ConfigError, OperatorError, Unsupported
from octavo.resolve.load import choose_platform, installed_extensions, load_config, load_draft
from tests.unit.checkpoint import build
from tests.unit.resolve.make import EXTENSIONS

ENV = Environment(cache_dir=None, api_key=None, visible_devices="")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return build.folder(tmp_path / "model")


def load(**said: object) -> str:
    with pytest.raises(OperatorError) as caught:
        load_config(EngineArgs(**said), ENV)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_folder_becomes_a_configuration(folder: Path) -> None:
    config = load_config(EngineArgs(model=str(folder)), ENV)

    assert (config.model.path, config.model.weight_format) == (str(folder), "safetensors")
    assert (config.parallel.device, config.model.dtype) == ("cpu", "float32")
    assert f"model: {folder}, where it was found" in config.notes


def test_a_gguf_file_becomes_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(build.llama_gguf())

    config = load_config(EngineArgs(model=str(path)), ENV)

    assert (config.model.path, config.model.weight_format) == (str(path), "gguf")
    assert config.frontend.tokenizer == str(path)


def test_random_weights_keep_the_models_own_sizes(folder: Path) -> None:
    config = load_config(EngineArgs(model=str(folder), load_format="dummy"), ENV)

    assert config.model.weight_format == "dummy"


def test_files_of_another_format_are_refused(folder: Path) -> None:
    assert "load_format='gguf': does not fit" in load(model=str(folder), load_format="gguf")
    assert "must be one of auto, safetensors" in load(model=str(folder), load_format="pt")


def test_a_chat_template_is_a_file_or_a_text(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.jinja"
    path.write_text("{{ ø }}")

    for said in (str(path), "{{ ø }}"):
        config = load_config(EngineArgs(model=str(folder), chat_template=said), ENV)
        assert config.frontend.chat_template == "{{ ø }}"


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"\xff", "it is not UTF-8"), (b"x" * ((1 << 20) + 1), "is larger than 1048576 bytes")],
)
def test_a_chat_template_that_is_no_text_is_refused(
    folder: Path, tmp_path: Path, data: bytes, reason: str
) -> None:
    path = tmp_path / "t.jinja"
    path.write_bytes(data)

    assert reason in load(model=str(folder), chat_template=str(path))
    assert "No such file" in load(model=str(folder), chat_template="gone.jinja")


def test_a_tokenizer_is_a_folder_or_a_gguf_file(folder: Path, tmp_path: Path) -> None:
    gguf = tmp_path / "t.gguf"
    gguf.write_bytes(b"")

    for said in (str(tmp_path), str(gguf)):
        config = load_config(EngineArgs(model=str(folder), tokenizer=said), ENV)
        assert config.frontend.tokenizer == said
    assert "is no folder and no .gguf file" in load(model=str(folder), tokenizer="gone")


def test_the_device_may_be_named(folder: Path) -> None:
    assert load_config(EngineArgs(model=str(folder), device="cpu"), ENV).parallel.device == "cpu"
    assert "device='cuda': " in load(model=str(folder), device="cuda")


def test_what_is_installed_is_named_without_being_imported() -> None:
    installed = installed_extensions()

    assert {"uniproc", "multiproc"} <= {*installed.executors}
    assert {"gguf", "safetensors", "dummy"} <= {*installed.weight_formats}


def test_a_platform_without_a_backend_is_not_chosen() -> None:
    with pytest.raises(Unsupported, match="octavo has no attention backend for cpu"):
        choose_platform(None, ENV, replace(EXTENSIONS, attention_backends=()))
    facts, notes = choose_platform("auto", ENV, installed_extensions())
    assert (facts.name, notes) == ("cpu", [])


def test_the_draft_has_the_plan_and_every_reason(folder: Path) -> None:
    draft = load_draft(EngineArgs(model=str(folder)), ENV)

    assert draft.memory is not None
    assert draft.memory.weights_bytes == 8
    assert {"model", "dtype", "max_model_len", "attention_backend"} <= {
        note.option for note in draft.notes
    }


def test_a_value_that_cannot_work_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError):
        load_config(EngineArgs(model=str(folder), max_num_seqs=0), ENV)
