"""Each line says process, module and request."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Iterator

import pytest

from octavo.kit.log import request_id, set_up_logging


@pytest.fixture(autouse=True)
def _unchanged_logging() -> Iterator[None]:
    root = logging.getLogger("octavo")
    before = root.handlers[:], root.level, root.propagate
    yield
    root.handlers[:], root.level, root.propagate = before


def test_a_line_has_level_process_module_and_message() -> None:
    stream = io.StringIO()
    set_up_logging("engine", stream=stream)

    logging.getLogger("octavo.engine.core").info("%d blocks", 12)

    assert stream.getvalue().split(" ", 1)[1] == "I engine engine.core: 12 blocks\n"


def test_a_line_carries_the_request_of_its_task() -> None:
    stream = io.StringIO()
    set_up_logging("api", stream=stream)
    log = logging.getLogger("octavo.api.http")

    async def serve(name: str) -> None:
        request_id.set(name)
        await asyncio.sleep(0)
        log.info("served")

    async def both() -> None:
        await asyncio.gather(serve("first"), serve("second"))

    asyncio.run(both())
    log.info("idle")

    lines = [line.split(" ", 3)[3] for line in stream.getvalue().splitlines()]
    assert lines == ["api.http [first]: served", "api.http [second]: served", "api.http: idle"]


def test_lines_below_the_level_are_not_written() -> None:
    stream = io.StringIO()
    set_up_logging("api", level="warning", stream=stream)

    logging.getLogger("octavo.api").info("no")
    logging.getLogger("octavo.api").warning("yes")

    assert stream.getvalue().endswith("yes\n")
    assert "no" not in stream.getvalue()


def test_a_second_set_up_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    set_up_logging("api", stream=first)
    set_up_logging("api", stream=second)

    logging.getLogger("octavo").info("once")

    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


def test_an_unknown_level_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"log level 'loud': must be one of \['debug'"):
        set_up_logging("api", level="loud")


def test_other_libraries_are_left_alone() -> None:
    stream = io.StringIO()
    set_up_logging("api", stream=stream)

    logging.getLogger("elsewhere").warning("theirs")

    assert stream.getvalue() == ""
