"""Hooks of the documentation build: pages that live elsewhere in the repository."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Put CONTRIBUTING.md and CHANGELOG.md into their pages, with links as seen from docs/."""
    source = ROOT / page.file.src_uri.upper().replace(".MD", ".md")
    if page.file.src_uri not in ("contributing.md", "changelog.md"):
        return markdown
    return source.read_text(encoding="utf-8").replace("](docs/", "](")
