"""Hooks of the documentation build: pages that live elsewhere in the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).parents[1]


class File(Protocol):
    """What mkdocs knows of a file."""

    src_uri: str


class Page(Protocol):
    """What mkdocs knows of a page."""

    file: File


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Put CONTRIBUTING.md and CHANGELOG.md into their pages, with links as seen from docs/."""
    if page.file.src_uri not in ("contributing.md", "changelog.md"):
        return markdown
    source = ROOT / f"{Path(page.file.src_uri).stem.upper()}.md"
    return source.read_text(encoding="utf-8").replace("](docs/", "](")
