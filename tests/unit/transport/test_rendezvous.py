"""The private folder of a channel."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from octavo.transport.rendezvous import Rendezvous, remove_rendezvous


def test_the_folder_is_private_and_goes_away() -> None:
    rendezvous = Rendezvous()
    folder = Path(rendezvous.path).parent

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    rendezvous.remove()
    rendezvous.remove()

    assert not folder.exists()


def test_a_long_temporary_folder_still_gives_a_usable_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 90)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))

    rendezvous = Rendezvous()

    assert len(os.fsencode(rendezvous.path)) < 104
    assert not list(deep.iterdir())
    rendezvous.remove()


def test_a_folder_of_another_name_is_left_alone(tmp_path: Path) -> None:
    remove_rendezvous(str(tmp_path / "engine"))

    assert tmp_path.exists()
