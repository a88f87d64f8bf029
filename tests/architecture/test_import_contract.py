"""The import contract holds, and each of its parts is shown to fail."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.architecture.conftest import Checkout

PLANTED = {
    "engine imports device": (
        {"octavo/engine/kv/planted.py": "import octavo.device.attention.interface\n"},
        "Processes: three stacks over one shared base BROKEN",
        "octavo.engine is not allowed to import octavo.device",
    ),
    "api imports engine": (
        {"octavo/api/text/planted.py": "import octavo.engine.kv\n"},
        "Processes: three stacks over one shared base BROKEN",
        "octavo.api is not allowed to import octavo.engine",
    ),
    "the shared base imports a process": (
        {"octavo/kit/planted.py": "import octavo.engine.kv\n"},
        "Processes: three stacks over one shared base BROKEN",
        "octavo.kit is not allowed to import octavo.engine",
    ),
    "a new folder has no place": (
        {"octavo/utils/planted.py": "X = 1\n"},
        "Processes: three stacks over one shared base BROKEN",
        "octavo.utils",
    ),
    "text imports http": (
        {"octavo/api/text/planted.py": "import octavo.api.http\n"},
        "API process: http over frontend over text and media BROKEN",
        "octavo.api.text is not allowed to import octavo.api.http",
    ),
    "schedule imports update": (
        {
            "octavo/engine/schedule/planted.py": "import octavo.engine.update.planted\n",
            "octavo/engine/update/planted.py": "X = 1\n",
        },
        "Engine process: step over its four calls over accounting BROKEN",
        "octavo.engine.schedule is not allowed to import octavo.engine.update",
    ),
    "execute imports sample": (
        {"octavo/device/execute/planted.py": "import octavo.device.sample\n"},
        "Device process: worker over execute, sample, draft over the model substrate BROKEN",
        "octavo.device.execute is not allowed to import octavo.device.sample",
    ),
    "the engine imports torch": (
        {"octavo/engine/kv/planted.py": "import torch\n"},
        "Only the device process imports torch BROKEN",
        "octavo.engine is not allowed to import torch",
    ),
    "the engine imports torch for types only": (
        {
            "octavo/engine/kv/planted.py": (
                "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import torch\n"
            )
        },
        "Only the device process imports torch BROKEN",
        "octavo.engine is not allowed to import torch",
    ),
    "the frontend imports the web framework": (
        {"octavo/api/frontend/planted.py": "import fastapi\n"},
        "Only api.http knows the web framework BROKEN",
        "octavo.api.frontend is not allowed to import fastapi",
    ),
    "an extension imports another": (
        {
            "octavo/device/attention/backends/planted_a.py": (
                "import octavo.device.attention.backends.planted_b\n"
            ),
            "octavo/device/attention/backends/planted_b.py": "X = 1\n",
        },
        "Extensions of one kind do not import each other BROKEN",
        "planted_a is not allowed to import octavo.device.attention.backends.planted_b",
    ),
    "siblings import each other": (
        {
            "octavo/kit/planted_a.py": "import octavo.kit.planted_b\n",
            "octavo/kit/planted_b.py": "import octavo.kit.planted_a\n",
        },
        "No cycles among siblings, at any depth BROKEN",
        "No cycles are allowed in octavo.kit",
    ),
}


def test_the_import_contract_holds(checkout: Checkout) -> None:
    result = checkout.lint_imports()

    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


@pytest.mark.parametrize("case", PLANTED)
def test_a_planted_import_fails_and_is_named(copy: Checkout, case: str) -> None:
    files, contract, place = PLANTED[case]
    for path, text in files.items():
        copy.plant(path, text)

    result = copy.lint_imports()

    assert result.returncode == 1, result.stdout + result.stderr
    said = " ".join(result.stdout.split())
    assert contract in said
    assert place in said


def test_the_contract_is_the_one_of_the_document(checkout: Checkout) -> None:
    document = (checkout.root / "docs/architecture.md").read_text()
    project = (checkout.root / "pyproject.toml").read_text()
    [block] = re.findall(r"```toml\n(\[tool\.importlinter\].*?)```", document, re.DOTALL)
    optional = re.compile(r"\((\w+)\)")  # layers that do not exist yet

    written = tomllib.loads(block)["tool"]["importlinter"]
    used = tomllib.loads(optional.sub(r"\1", project))["tool"]["importlinter"]

    assert written == used
