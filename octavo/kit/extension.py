"""The one plug-in mechanism: a name resolves to a built-in module or an entry point."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import Any


@dataclass(frozen=True, slots=True)
class ExtensionPoint:
    """One kind of plug-in: a package of built-in modules and an entry-point group.

    Nothing is imported until it is asked for by name.
    """

    group: str
    package: str
    attribute: str

    def names(self) -> list[str]:
        """Every name that ``load`` accepts.

        Raises:
            ValueError: a plug-in has the name of a built-in module.
        """
        modules = iter_modules(import_module(self.package).__path__)
        built_in = {module.name for module in modules} - {"base"}
        plugged = {entry.name for entry in entry_points(group=self.group)}
        if taken := built_in & plugged:
            raise ValueError(f"{self.group}: {sorted(taken)} are built in; rename the plug-in")
        return sorted(built_in | plugged)

    def load(self, name: str) -> Any:  # Any: each kind of extension has its own interface
        """Import and return the extension called ``name``.

        Raises:
            LookupError: nothing has that name; the message lists the nearest.
        """
        known = self.names()
        if name not in known:
            hint = get_close_matches(name, known, n=1) or known
            raise LookupError(f"{self.group} has no {name!r}. Did you mean one of: {hint}?")
        for entry in entry_points(group=self.group, name=name):
            return entry.load()
        return getattr(import_module(f"{self.package}.{name}"), self.attribute)
