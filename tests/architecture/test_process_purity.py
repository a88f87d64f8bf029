"""API and engine code never loads torch, not even through a library.

The import contract sees our own imports; this sees what a fresh interpreter really loaded.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.conftest import Checkout

HEAVY = ("torch", "triton", "transformers", "tensorflow", "jax")
SHARED = ("kit", "transport", "config", "contracts", "checkpoint", "platforms", "resolve")
PROCESSES = {"api": ("api",), "engine": ("engine",), "shared": SHARED}

_PROGRAM = """
import importlib, sys
for name in sys.argv[1].split(","):
    importlib.import_module(name)
heavy = sorted(set(sys.argv[2].split(",")) & set(sys.modules))
print("loaded:", ",".join(heavy) or "nothing heavy")
"""


def modules_of(root: Path, folders: tuple[str, ...]) -> list[str]:
    """Names of all modules below ``folders`` of the package."""
    paths = [path for folder in folders for path in (root / "octavo" / folder).rglob("*.py")]
    names = (".".join(path.relative_to(root).with_suffix("").parts) for path in sorted(paths))
    return [name.removesuffix(".__init__") for name in names]


def heavy_modules(checkout: Checkout, modules: list[str]) -> str:
    """Import ``modules`` in a fresh interpreter; say which heavy libraries that loaded."""
    result = checkout.run("-c", _PROGRAM, ",".join(modules), ",".join(HEAVY))
    assert result.returncode == 0, result.stderr
    return result.stdout.strip().removeprefix("loaded: ")


@pytest.mark.parametrize("process", PROCESSES)
def test_no_module_of_the_process_loads_torch(checkout: Checkout, process: str) -> None:
    modules = modules_of(checkout.root, PROCESSES[process])

    assert heavy_modules(checkout, modules) == "nothing heavy"


@pytest.mark.parametrize(
    "module",
    [
        "octavo",
        "octavo.entrypoints.cli.main",
        "octavo.launch.serve",
        "octavo.launch.supervisor",
        "octavo.launch.api_process",
        "octavo.launch.engine_process",
    ],
)
def test_entry_modules_do_not_load_torch(checkout: Checkout, module: str) -> None:
    assert heavy_modules(checkout, [module]) == "nothing heavy"


def test_a_planted_import_of_torch_is_seen(copy: Checkout) -> None:
    copy.plant("torch/__init__.py", "")
    copy.plant("octavo/engine/kv/planted.py", "import torch\n")

    assert heavy_modules(copy, modules_of(copy.root, ("engine/kv",))) == "torch"


def test_a_planted_library_that_imports_torch_is_seen(copy: Checkout) -> None:
    copy.plant("torch/__init__.py", "")
    copy.plant("innocent/__init__.py", "import torch\n")
    copy.plant("octavo/api/text/planted.py", "import innocent\n")

    assert heavy_modules(copy, modules_of(copy.root, ("api/text",))) == "torch"
