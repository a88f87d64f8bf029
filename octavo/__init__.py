"""octavo: inference and serving of large language models.

Process: shared
Step: none
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from octavo.api.frontend.outputs import CompletionOutput, RequestOutput
    from octavo.api.frontend.params import SamplingParams
    from octavo.entrypoints.llm import LLM

_PUBLIC = {
    "LLM": "octavo.entrypoints.llm",
    "SamplingParams": "octavo.api.frontend.params",
    "RequestOutput": "octavo.api.frontend.outputs",
    "CompletionOutput": "octavo.api.frontend.outputs",
}

__all__ = ["LLM", "CompletionOutput", "RequestOutput", "SamplingParams", "__version__"]


def __getattr__(name: str) -> object:
    """Import a public name at its first use, so that ``import octavo`` costs nothing."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'octavo' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
