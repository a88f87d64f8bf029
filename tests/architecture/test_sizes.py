"""Ceilings of files, classes and functions hold, and each is shown to fail."""

from __future__ import annotations

from tests.architecture.conftest import Checkout


def test_every_file_and_class_is_under_its_ceiling(checkout: Checkout) -> None:
    result = checkout.run("tools/check_sizes.py")

    assert result.returncode == 0, result.stdout


def test_a_file_over_its_line_in_the_table_fails(copy: Checkout) -> None:
    copy.append("octavo/kit/env.py", "\n# planted" * 120 + "\n")

    result = copy.run("tools/check_sizes.py")

    assert result.returncode == 1
    [line] = [line for line in result.stdout.splitlines() if "octavo/kit/env.py" in line]
    assert line.split()[-2:] == ["ceiling", "120"]


def test_an_extension_over_the_ceiling_of_its_kind_fails(copy: Checkout) -> None:
    copy.plant("octavo/device/ops/planted.py", "X = 1\n" * 401)

    result = copy.run("tools/check_sizes.py")

    assert result.returncode == 1
    [line] = [line for line in result.stdout.splitlines() if "ops/planted.py" in line]
    assert line.split()[1:] == ["lines", "401", "ceiling", "400"]


def test_a_file_that_is_in_no_table_fails(copy: Checkout) -> None:
    copy.plant("octavo/engine/planted.py", "X = 1\n")

    result = copy.run("tools/check_sizes.py")

    assert result.returncode == 1
    assert "octavo/engine/planted.py" in result.stdout
    assert "in no table" in result.stdout


def test_a_class_with_too_many_public_methods_fails(copy: Checkout) -> None:
    methods = "".join(f"    def method_{i}(self) -> None: ...\n" for i in range(21))
    copy.append("octavo/kit/errors.py", f"\n\nclass Planted:\n{methods}")

    result = copy.run("tools/check_sizes.py")

    assert result.returncode == 1
    assert "methods of Planted" in result.stdout


def test_a_function_with_too_many_statements_fails(copy: Checkout) -> None:
    body = "".join(f"    value = {i}\n" for i in range(41))
    copy.append("octavo/kit/env.py", f"\n\ndef planted() -> int:\n{body}    return value\n")

    result = copy.run("-m", "ruff", "check", "--no-cache", "--output-format=concise", "octavo")

    assert result.returncode == 1
    assert "octavo/kit/env.py" in result.stdout
    assert "PLR0915" in result.stdout


def test_a_function_with_too_many_branches_fails(copy: Checkout) -> None:
    body = "".join(f"    if value == {i}:\n        value += 2\n" for i in range(11))
    copy.append(
        "octavo/kit/env.py", f"\n\ndef planted(value: int) -> int:\n{body}    return value\n"
    )

    result = copy.run("-m", "ruff", "check", "--no-cache", "--output-format=concise", "octavo")

    assert result.returncode == 1
    assert "PLR0912" in result.stdout


def test_an_import_inside_a_function_fails(copy: Checkout) -> None:
    copy.append(
        "octavo/kit/env.py", "\n\ndef planted() -> None:\n    import json\n\n    json.loads('')\n"
    )

    result = copy.run("-m", "ruff", "check", "--no-cache", "--output-format=concise", "octavo")

    assert result.returncode == 1
    assert "PLC0415" in result.stdout
