"""Write docs/reference/ from the code: flags, environment, errors, metrics, extensions.

Usage: make_reference.py [FOLDER]. Everything comes from fields, docstrings and declarations, so a
page is as complete as the code is documented; a test compares the pages with what this writes.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from prometheus_client.core import Metric

from octavo.api.frontend.metrics import Metrics
from octavo.config import args
from octavo.config.cli import field_docs
from octavo.entrypoints import cli
from octavo.kit import errors
from octavo.kit.env import Environment
from octavo.kit.errors import RequestRefused

ROOT = Path(__file__).parents[1]
WRITTEN = "<!-- Written by tools/make_reference.py; `make reference` writes it again. -->\n"


def main(arguments: list[str]) -> int:
    """Write every page into the folder named by ``arguments``, by default docs/reference."""
    folder = Path(arguments[0]) if arguments else ROOT / "docs/reference"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


def pages() -> dict[str, str]:
    """Return every page by file name."""
    return {
        "flags.md": flags_page(),
        "environment.md": environment_page(),
        "errors.md": errors_page(),
        "metrics.md": metrics_page(),
        "extensions.md": extensions_page(),
    }


def flags_page() -> str:
    """Tables of all flags, one per dataclass of arguments."""
    parts = [
        "# Flags\n",
        WRITTEN,
        "A flag that is not given is decided at start; `octavo inspect` shows the value and the\n"
        "reason. `--config file.yaml` takes the same names. Lengths and sizes take suffixes:\n"
        "`k`, `m`, `g` are powers of 1000; `K`, `M`, `G` powers of 1024. A yes-or-no flag has\n"
        "a twin with `--no-`.\n",
    ]
    for cls in argument_classes():
        docs = field_docs(cls)
        rows = [(_flag(field), _kind(field), docs.get(field.name, "")) for field in fields(cls)]
        parts.append(f"## {_heading(cls)}\n")
        parts.append(_table(("Flag", "Value; default", "Meaning"), rows))
    return "\n".join(parts)


def environment_page() -> str:
    """Table of the environment variables of ``kit/env.py``."""
    rows: list[tuple[str, ...]] = []
    for text in field_docs(Environment).values():
        name, _, meaning = text.partition(": ")
        rows.append((name.replace("``", "`"), _code(meaning)))
    intro = (
        "They are for deployment and debugging; none changes what is generated. Libraries have\n"
        "their own, such as `HF_ENDPOINT`, `HF_TOKEN` and `HF_HUB_OFFLINE` of huggingface_hub.\n"
    )
    table = _table(("Variable", "Meaning"), rows)
    return "\n".join(["# Environment variables\n", WRITTEN, intro, table])


def errors_page() -> str:
    """Table of the exceptions of ``kit/errors.py``, with what they do."""
    rows = [
        (f"`{cls.__name__}`", _effect(cls), _code(_paragraph(cls)))
        for cls in vars(errors).values()
        if isinstance(cls, type) and issubclass(cls, errors.OctavoError)
    ]
    return "\n".join(["# Errors\n", WRITTEN, _table(("Error", "Effect", "Meaning"), rows)])


def metrics_page() -> str:
    """Table of the metrics of ``/metrics``."""
    rows = [(f"`{name}`", kind, _code(text)) for name, kind, text in declared_metrics()]
    intro = "`GET /metrics` answers them as Prometheus text, each with the label `model_name`.\n"
    return "\n".join(["# Metrics\n", WRITTEN, intro, _table(("Metric", "Kind", "Meaning"), rows)])


def extensions_page() -> str:
    """Table of the extension points that the package declares."""
    rows = [(f"`{group}`", f"`{package}`", f"`{name}`") for group, package, name in extensions()]
    intro = "How to write one: [contributing](../contributing.md#adding-an-extension).\n"
    headings = ("Entry-point group", "Package of the built-in ones", "Exports")
    return "\n".join(["# Extension points\n", WRITTEN, intro, _table(headings, rows)])


def argument_classes() -> list[type[Any]]:
    """Return the dataclasses whose fields are flags: of all commands, then of each."""
    names = sorted(module.name for module in iter_modules(cli.__path__))
    modules = [args, *(import_module(f"octavo.entrypoints.cli.{name}") for name in names)]
    return [
        cls
        for module in modules
        for cls in vars(module).values()
        if is_dataclass(cls) and isinstance(cls, type) and cls.__module__ == module.__name__
        if cls.__name__.endswith("Args")
    ]


def declared_metrics() -> list[tuple[str, str, str]]:
    """Return name, kind and description of every metric that ``/metrics`` shows."""
    families = Metrics(model_name="any").collect()
    return [(_metric_name(family), family.type, family.documentation) for family in families]


def extensions(root: Path = ROOT) -> list[tuple[str, str, str]]:
    """Return group, package and attribute of every ``ExtensionPoint`` that the package makes."""
    found: set[tuple[str, str, str]] = set()
    for path in (root / "octavo").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="ExtensionPoint")):
                    texts = [*node.args, *(keyword.value for keyword in node.keywords)]
                    values = [t.value for t in texts if isinstance(t, ast.Constant)]
                    group, package, attribute = (str(value) for value in values)
                    found.add((group, package, attribute))
    return sorted(found)


def _metric_name(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def _flag(field: Field[Any]) -> str:
    flag = f"`--{field.name.replace('_', '-')}`"
    return f"`MODEL`, {flag}" if field.name == "model" else flag


def _kind(field: Field[Any]) -> str:
    kind = str(field.type).removesuffix(" | None")
    words = {"int": "number", "float": "number", "str": "text", "bool": "yes or no"}
    said = words.get(kind, "texts" if kind.startswith("tuple") else kind)
    if field.default in (None, MISSING, ()):
        return said
    default = {True: "yes", False: "no"}[field.default] if kind == "bool" else f"`{field.default}`"
    return f"{said}; {default}"


def _effect(cls: type[errors.OctavoError]) -> str:
    if issubclass(cls, RequestRefused):
        return f"HTTP {cls.status}"
    return "exit code 2" if issubclass(cls, errors.OperatorError) else ""


def _heading(cls: type[Any]) -> str:
    title = (cls.__doc__ or cls.__name__).splitlines()[0].rstrip(".")
    if cls.__module__ == args.__name__:
        return title
    command = cls.__module__.rpartition(".")[2].replace("bench_report", "bench").replace("_", " ")
    return f"octavo {command}: {title[0].lower()}{title[1:]}"


def _paragraph(cls: type[Any]) -> str:
    return " ".join((cls.__doc__ or "").split("\n\n")[0].split())


def _code(text: str) -> str:
    return text.replace("``", "`")


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [headings, tuple("---" for _ in headings), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
