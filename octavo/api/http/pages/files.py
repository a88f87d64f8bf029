"""Reading of the static pages."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def page(name: str) -> str:
    """Text of one file of this folder."""
    return files("octavo.api.http.pages").joinpath(name).read_text("utf-8")
