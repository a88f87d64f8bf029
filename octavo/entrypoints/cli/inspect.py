"""octavo inspect: resolved configuration, platforms, backends, with reasons."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from octavo.config.args import EngineArgs, ServerArgs
from octavo.config.cli import parse
from octavo.config.frontend import ServerConfig
from octavo.config.octavo import OctavoConfig
from octavo.kit.env import Environment, read_environment
from octavo.platforms.base import present_platforms
from octavo.resolve.draft import Draft
from octavo.resolve.load import load_draft
from octavo.resolve.resolver import finished
from octavo.resolve.rules.memory import size
from octavo.resolve.server import resolve_server

_ABOUT = "Show what would run, and why, without loading the model."


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectArgs:
    """The report."""

    json: bool = False
    """Print one JSON object instead of text."""


def run(argv: list[str]) -> int:
    """Resolve as ``octavo serve`` would and print the result."""
    args, server_args, report = parse(
        argv, EngineArgs, ServerArgs, InspectArgs, prog="octavo inspect", about=_ABOUT
    )
    env = read_environment()
    server = resolve_server(server_args, env)
    draft = load_draft(args, env)
    config = finished(draft)
    if report.json:
        print(json.dumps(_as_json(config, server, draft, env), indent=2))
    else:
        print(_as_text(config, server, draft, env))
    return 0


def _as_json(
    config: OctavoConfig, server: ServerConfig, draft: Draft, env: Environment
) -> dict[str, Any]:
    """The configuration, the plan and the reasons; Any: what JSON can hold."""
    assert draft.memory is not None
    present, absent = present_platforms(env)
    values = asdict(config)
    values.pop("notes")
    return {
        "config": values,
        "server": dict(_server_facts(server)),
        "memory": {
            "limit_bytes": draft.memory.limit_bytes,
            "regions": draft.memory.regions(),
            "bytes_per_block": draft.memory.bytes_per_block,
            "total_bytes": draft.memory.total_bytes,
        },
        "reasons": [
            {"option": note.option, "value": note.value, "reason": note.reason}
            for note in draft.notes
        ],
        "said": {name: value for name, value in asdict(draft.args).items() if value},
        "platforms": {"present": [asdict(facts) for facts in present], "absent": absent},
        "extensions": asdict(draft.extensions),
    }


def _as_text(config: OctavoConfig, server: ServerConfig, draft: Draft, env: Environment) -> str:
    served = [(name, str(value)) for name, value in _server_facts(server)]
    return "\n\n".join(
        _section(title, rows)
        for title, rows in (
            ("Model", _model_rows(config, draft)),
            ("Server", served),
            ("Decided", _decided_rows(draft)),
            ("Said", _said_rows(draft)),
            ("Memory", _memory_rows(draft)),
            ("Installed", _installed_rows(draft, env)),
        )
        if rows
    )


def _server_facts(server: ServerConfig) -> list[tuple[str, str | int]]:
    """Where it would listen; keys are counted, not shown."""
    address: list[tuple[str, str | int]] = [("host", server.host), ("port", server.port)]
    return [
        *(address if server.uds is None else [("uds", server.uds)]),
        ("num_api_keys", len(server.api_keys)),
        ("max_body_bytes", server.max_body_bytes),
    ]


def _section(title: str, rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join([title, *(f"  {name:<{width}}  {text}" for name, text in rows)])


def _model_rows(config: OctavoConfig, draft: Draft) -> list[tuple[str, str]]:
    model = config.model
    heads = f"{model.num_heads} query, {model.num_kv_heads} key and value, of {model.head_size}"
    windows = sorted({layer.window for layer in model.layers if layer.window is not None})
    return [
        ("name", model.name),
        ("architecture", f"{model.architecture} ({model.model_type})"),
        ("weights", f"{draft.facts.num_weights:,} numbers in {model.weight_format}"),
        ("layers", f"{model.num_layers} of width {model.hidden_size}"),
        ("heads", heads),
        ("vocabulary", f"{model.vocab_size:,}"),
        ("rotary", f"{model.rope.kind}, theta {model.rope.theta:g}"),
        *([("windows", ", ".join(map(str, windows)))] if windows else []),
    ]


def _decided_rows(draft: Draft) -> list[tuple[str, str]]:
    return [(note.option, f"{note.value}  ({note.reason})") for note in draft.notes]


def _said_rows(draft: Draft) -> list[tuple[str, str]]:
    said = {name: value for name, value in asdict(draft.args).items() if value not in (None, ())}
    return [(name, f"{value!r:.100}") for name, value in said.items()]


def _memory_rows(draft: Draft) -> list[tuple[str, str]]:
    plan = draft.memory
    assert plan is not None
    cache = (
        f"{plan.num_blocks} blocks of {draft.block_size} tokens, {size(plan.bytes_per_block)} each"
    )
    return [
        *((name, size(taken)) for name, taken in plan.regions().items()),
        ("all", f"{size(plan.total_bytes)} of {size(plan.limit_bytes)} that may be used"),
        ("blocks", cache),
    ]


def _installed_rows(draft: Draft, env: Environment) -> list[tuple[str, str]]:
    present, absent = present_platforms(env)
    rows = [
        (
            f"platform {facts.name}",
            f"{facts.device_name}, {size(facts.available_memory_bytes)} of "
            f"{size(facts.total_memory_bytes)} free",
        )
        for facts in present
    ]
    rows += [("absent", reason) for reason in absent]
    rows += [
        (kind.replace("_", " "), ", ".join(names) or "none")
        for kind, names in asdict(draft.extensions).items()
    ]
    return rows
