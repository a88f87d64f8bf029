"""Dataclass fields to command-line flags, values and help.

A field called ``max_model_len`` is the flag ``--max-model-len``; ``model`` is also positional,
and so is a field whose metadata say ``positional``.
``--config file.yaml`` holds the same names; what the command line says wins.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TypeVar, overload

from octavo.config.values import flag_of, from_yaml, kind_of, reader_of
from octavo.kit.errors import ConfigError, OperatorError

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

POSITIONAL = "model"


@overload
def parse(argv: Sequence[str], a: type[A], /, *, prog: str, about: str = "") -> tuple[A]: ...
@overload
def parse(
    argv: Sequence[str], a: type[A], b: type[B], /, *, prog: str, about: str = ""
) -> tuple[A, B]: ...
@overload
def parse(
    argv: Sequence[str], a: type[A], b: type[B], c: type[C], /, *, prog: str, about: str = ""
) -> tuple[A, B, C]: ...
def parse(
    argv: Sequence[str], /, *classes: type[Any], prog: str, about: str = ""
) -> tuple[Any, ...]:  # Any: the overloads give the types
    """Return one instance per class from flags and, where ``--config`` names one, a YAML file.

    Raises:
        ConfigError: a flag or key is not known, or a value is not of its kind.
        SystemExit: ``--help`` was asked for; it has been printed.
    """
    parser = _Parser(prog=prog, description=about, allow_abbrev=False)
    wants_help = any(word in ("-h", "--help") for word in argv)
    for cls in classes:
        add_arguments(parser, cls, documented=wants_help)
    parser.add_argument(
        "--config",
        metavar="FILE",
        default=argparse.SUPPRESS,
        help="YAML file with any of these options; the command line wins.",
    )
    said = parser.parse_known([_dashed(word) for word in argv])
    _merge_positional(said, [f.name for cls in classes for f in fields(cls) if _is_positional(f)])
    path = said.pop("config", None)
    if path is not None:
        said = {**_from_file(Path(path), classes, prog), **said}
    return tuple(build(cls, said) for cls in classes)


def add_arguments(
    parser: argparse.ArgumentParser, cls: type[Any], *, documented: bool = True
) -> None:
    """Add a flag per field of ``cls``; help comes from the string under the field."""
    docs = field_docs(cls) if documented else {}
    group = parser.add_argument_group((cls.__doc__ or cls.__name__).splitlines()[0].rstrip("."))
    for field in fields(cls):
        options = {**_options(field), "help": _help(field, docs), "default": argparse.SUPPRESS}
        group.add_argument(flag_of(field.name), dest=field.name, **options)
        if _is_positional(field):
            group.add_argument(
                _positional_dest(field.name),
                nargs="?",
                metavar=field.name.upper(),
                default=argparse.SUPPRESS,
                help=f"The same as {flag_of(field.name)}.",
            )


def build(cls: type[Any], said: Mapping[str, object]) -> Any:  # Any: an instance of cls
    """Make an instance from those of ``said`` that are its fields."""
    names = {field.name for field in fields(cls)}
    return cls(**{name: value for name, value in said.items() if name in names})


def field_docs(cls: type[Any]) -> dict[str, str]:
    """Return the string under each field of a dataclass, read from its source."""
    path = sys.modules[cls.__module__].__file__
    assert path is not None
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    docs: dict[str, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef) or node.name != cls.__name__:
            continue
        for item, after in zip(node.body, node.body[1:], strict=False):
            match item, after:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    docs[name] = " ".join(text.split())
    return docs


class _Parser(argparse.ArgumentParser):
    """argparse, with errors that say what was meant."""

    def parse_known(self, words: list[str]) -> dict[str, Any]:
        """Parse, and name the nearest flag for one that is not known."""
        known, unknown = self.parse_known_intermixed_args(words)
        if unknown:
            flags = list(self._option_string_actions)
            word = next((word for word in unknown if word.startswith("-")), unknown[0])
            raise _unknown(word.split("=")[0], word.split("=")[0], flags, self.prog)
        for name, value in vars(known).items():
            if value == []:  # what argparse makes of --flag=-- before Python 3.13
                self.error(f"argument {flag_of(name)}: expected one argument")
        return vars(known)

    def error(self, message: str) -> NoReturn:
        option, _, reason = message.removeprefix("argument ").partition(": ")
        raise NotUnderstood(option, reason or "is not understood", fix=f"See {self.prog} --help.")


class NotUnderstood(ConfigError):
    """A word on the command line, or a key in a file, that says nothing to octavo."""

    def __init__(self, said: str, want: str, *, fix: str) -> None:
        OperatorError.__init__(self, f"{said}: {want}. {fix}")
        self.option, self.want = said, want


def _unknown(said: str, word: str, known: list[str], prog: str) -> NotUnderstood:
    near = get_close_matches(word, known, n=1)
    return NotUnderstood(
        said,
        f"is not known to {prog}",
        fix=f"Did you mean {near[0]}?" if near else f"See {prog} --help.",
    )


def _positional_dest(name: str) -> str:
    return f"{name}_"


def _dashed(word: str) -> str:
    """Accept ``--max_model_len`` for ``--max-model-len``."""
    if not word.startswith("--"):
        return word
    flag, equals, value = word.partition("=")
    return flag.replace("_", "-") + equals + value


def _is_positional(field: Field[Any]) -> bool:
    return field.name == POSITIONAL or "positional" in field.metadata


def _merge_positional(said: dict[str, Any], names: list[str]) -> None:
    """Give words without a flag to their fields; where there are fewer, the last fields win."""
    words = [said.pop(dest) for dest in map(_positional_dest, names) if dest in said]
    for name, word in zip(names[len(names) - len(words) :], words, strict=True):
        if said.setdefault(name, word) != word:
            want = f"was given twice, the other is {word!r}"
            raise ConfigError(name, said[name], want=want, fix=f"Give the {name} once.")


def _options(field: Field[Any]) -> dict[str, Any]:  # Any: what add_argument takes
    if kind_of(field) == "bool":
        return {"action": argparse.BooleanOptionalAction}
    metavar = kind_of(field).removeprefix("tuple[").split(",")[0].upper()
    if not kind_of(field).startswith("tuple"):
        return {"type": reader_of(field), "metavar": metavar}
    nargs = field.metadata.get("nargs")
    if nargs is None:
        return {"action": _Append, "type": reader_of(field), "metavar": metavar}
    return {"action": _Append, "type": reader_of(field), "metavar": metavar, "nargs": nargs}


class _Append(argparse.Action):
    """Collect into a tuple, over all uses of the flag."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 (argparse's interface)
        namespace: argparse.Namespace,
        values: Any,  # Any: as in argparse
        option_string: str | None = None,  # noqa: ARG002 (argparse's interface)
    ) -> None:
        more = values if isinstance(values, list) else [values]
        setattr(namespace, self.dest, (*getattr(namespace, self.dest, ()), *more))


def _help(field: Field[Any], docs: dict[str, str]) -> str:
    text = docs.get(field.name, "")
    if field.default not in (None, MISSING, ()):
        text = f"{text} Default: {field.default}."
    return text.replace("%", "%%")


def _from_file(path: Path, classes: tuple[type[Any], ...], prog: str) -> dict[str, object]:
    """Read a YAML file of flags. The reader, and with it the YAML library, loads only here."""
    known = {field.name: field for cls in classes for field in fields(cls)}
    said: dict[str, object] = {}
    for key, value in import_module("octavo.config.file").read_yaml(path).items():
        name = key.lstrip("-").replace("-", "_")
        if name not in known:
            raise _unknown(f"{key} in {path}", name, list(known), prog)
        if value is not None:
            said[name] = from_yaml(known[name], value)
    return said
