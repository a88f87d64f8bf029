"""From arguments to a configuration: the part that looks at files and at the machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from octavo.checkpoint.source import FOLDER, ModelSource, locate
from octavo.config.args import EngineArgs
from octavo.config.octavo import OctavoConfig
from octavo.kit.env import Environment
from octavo.kit.errors import ConfigError, Unsupported
from octavo.kit.extension import ExtensionPoint
from octavo.platforms.base import PlatformFacts, present_platforms, probe_platform
from octavo.resolve.draft import Draft, Extensions, Note, require_choice
from octavo.resolve.facts import ModelFacts
from octavo.resolve.gguf import read_gguf_model
from octavo.resolve.hf import read_folder
from octavo.resolve.resolver import decide, finished
from octavo.resolve.rules.parallel import usable_backends

_MODELS = ExtensionPoint("octavo.models", "octavo.device.models", "MODELS")
_BACKENDS = ExtensionPoint(
    "octavo.attention_backends", "octavo.device.attention.backends", "BACKEND"
)
_EXECUTORS = ExtensionPoint("octavo.executors", "octavo.engine.executor", "EXECUTOR")
_METHODS = ExtensionPoint("octavo.quantization", "octavo.device.quantization.methods", "METHOD")
_FORMATS = ExtensionPoint("octavo.weight_formats", "octavo.device.loading.formats", "FORMAT")

_MAX_TEMPLATE_BYTES = 1 << 20


def load_config(args: EngineArgs, env: Environment) -> OctavoConfig:
    """Locate the model, read its headers, ask the machine, and decide.

    Raises:
        OperatorError: what the operator can change; the message says how.
    """
    return finished(load_draft(args, env))


def load_draft(args: EngineArgs, env: Environment) -> Draft:
    """The same, with the memory plan and the reasons."""
    require_choice("load_format", args.load_format, ("auto", "safetensors", "gguf", "dummy"))
    args = replace(args, chat_template=_template(args.chat_template))
    _check_tokenizer(args.tokenizer)
    source = locate(args.model, revision=args.revision, download_dir=args.download_dir, env=env)
    extensions = installed_extensions()
    facts = read_facts(source, args.load_format)
    platform, notes = choose_platform(args.device, env, extensions)
    draft = decide(args, facts, platform, extensions)
    found = Note("model", str(source.path), "where it was found")
    return replace(draft, notes=(found, *notes, *draft.notes))


def read_facts(source: ModelSource, load_format: str | None) -> ModelFacts:
    """Read what the files of a model say.

    Raises:
        CheckpointError, Unsupported: as in ``hf`` and ``gguf``.
        ConfigError: the files are of another format than asked for.
    """
    own = "safetensors" if source.kind == FOLDER else "gguf"
    weight_format = own if load_format in (None, "auto") else load_format
    if weight_format not in (own, "dummy"):
        raise ConfigError(
            "load_format",
            load_format,
            want=f"does not fit {source.path}, which is {own}",
            fix="Use --load-format auto.",
        )
    assert weight_format is not None
    read = read_folder if source.kind == FOLDER else read_gguf_model
    return read(
        source.path, name=source.name, model_types=_MODELS.names(), weight_format=weight_format
    )


def choose_platform(
    device: str | None, env: Environment, extensions: Extensions
) -> tuple[PlatformFacts, list[Note]]:
    """Return the platform that was asked for, or the first that has an attention backend.

    Raises:
        Unsupported: it is not here, or octavo has no backend for it.
    """
    if device not in (None, "auto"):
        assert device is not None
        return probe_platform(device, env), []
    present, _ = present_platforms(env)
    usable = [
        platform
        for platform in present
        if usable_backends(platform.attention_backends, extensions.attention_backends)
    ]
    if not usable:
        raise Unsupported(
            f"device='auto': octavo has no attention backend for "
            f"{', '.join(platform.name for platform in present)}. Install one that has."
        )
    passed_over = present[: present.index(usable[0])]
    return usable[0], [
        Note("device", usable[0].name, f"since octavo has no attention backend for {other.name}")
        for other in passed_over
    ]


def installed_extensions() -> Extensions:
    """Names of what is installed; only the packages that hold them are imported."""
    return Extensions(
        attention_backends=tuple(_BACKENDS.names()),
        executors=tuple(_EXECUTORS.names()),
        quantizations=tuple(_METHODS.names()),
        weight_formats=tuple(_FORMATS.names()),
    )


def _template(said: str | None) -> str | None:
    """Return the text of a chat template: the option itself, or the file it names."""
    if said is None or "{" in said:
        return said
    path = Path(said).expanduser()
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_TEMPLATE_BYTES + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise _bad_template(said, f"is no readable file ({reason})") from error
    if len(data) > _MAX_TEMPLATE_BYTES:
        raise _bad_template(said, f"is larger than {_MAX_TEMPLATE_BYTES} bytes")
    return text


def _bad_template(said: str, want: str) -> ConfigError:
    return ConfigError(
        "chat_template",
        said,
        want=want,
        fix="Give the path of a Jinja file, or the template itself.",
    )


def _check_tokenizer(said: str | None) -> None:
    if said is None:
        return
    path = Path(said).expanduser()
    if not (path.is_dir() or (path.is_file() and path.suffix == ".gguf")):
        raise ConfigError(
            "tokenizer",
            said,
            want="is no folder and no .gguf file",
            fix="Give the folder that holds tokenizer.json, or a .gguf file.",
        )
