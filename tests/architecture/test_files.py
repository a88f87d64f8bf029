"""Rules about comments and files hold, and each is shown to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.conftest import Checkout


def test_every_tracked_file_keeps_the_rules(checkout: Checkout) -> None:
    if not (checkout.root / ".git").exists():
        pytest.skip("not a checkout: nothing is tracked")

    result = checkout.run("tools/check_files.py")

    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1  # TO" + "DO: later\n", "planted.py:1: a TODO names its issue"),
        ("x = 1\n# FIX" + "ME\n", "planted.py:2: FIXME is refused"),
        ("# X" + "XX\n", "XXX is refused"),
        ("# HA" + "CK\n", "HACK is refused"),
        ("x = 1", "must end with one newline"),
        ("x = 1\n\n", "must end with one newline"),
        ("x = 1 \n", "planted.py:1: blanks at the end"),
        ("x = 1\n" * 100_000, "at most 524288 may be committed"),
    ],
)
def test_a_planted_violation_fails(
    checkout: Checkout, tmp_path: Path, text: str, said: str
) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text(text)

    result = checkout.run("tools/check_files.py", str(planted))

    assert result.returncode == 1
    assert said in result.stdout


def test_a_todo_with_an_issue_and_a_word_in_a_string_are_fine(
    checkout: Checkout, tmp_path: Path
) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text('x = "TO' + 'DO"  # TODO(#12): also for files\n')

    result = checkout.run("tools/check_files.py", str(planted))

    assert (result.returncode, result.stdout) == (0, "")
