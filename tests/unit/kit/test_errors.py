"""Errors say who can act, and what to do."""

from __future__ import annotations

import pytest

from octavo.kit import errors
from octavo.kit.errors import (
    CheckpointError,
    ConfigError,
    EngineDied,
    NotFound,
    OctavoError,
    OperatorError,
    Overloaded,
    PromptTooLong,
    RequestFailed,
    RequestRefused,
    Unsupported,
    can_operator_mend,
    is_device_lost,
    one_line,
)


def test_every_error_of_the_module_is_an_octavo_error() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]

    assert len(kinds) >= 10
    assert all(issubclass(kind, OctavoError) for kind in kinds)


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (RequestRefused("no"), 400, "invalid_request_error"),
        (NotFound("no"), 404, "not_found_error"),
        (Overloaded("no", retry_after_s=2), 429, "rate_limit_error"),
        (
            PromptTooLong(num_prompt_tokens=9, max_tokens=2, limit=10),
            400,
            "invalid_request_error",
        ),
    ],
)
def test_a_refused_request_has_a_status_and_a_kind(
    error: RequestRefused, status: int, kind: str
) -> None:
    assert (error.status, error.kind) == (status, kind)
    assert error.message == str(error)


def test_a_long_prompt_says_by_how_much_it_is_too_long() -> None:
    error = PromptTooLong(num_prompt_tokens=2000, max_tokens=100, limit=2048)

    assert "prompt has 2000 tokens" in str(error)
    assert "max_tokens is 100" in str(error)
    assert "holds 2048" in str(error)
    assert "by 52 tokens" in str(error)
    assert (error.param, error.code) == ("prompt", "context_length_exceeded")


def test_an_option_error_has_option_value_bound_and_remedy() -> None:
    error = ConfigError("block_size", 7, want="must be a power of two", fix="Use --block-size 16.")

    assert str(error) == "block_size=7: must be a power of two. Use --block-size 16."
    assert error.option == "block_size"


def test_an_overloaded_server_says_when_to_come_back() -> None:
    assert Overloaded("full", retry_after_s=1.5).retry_after_s == 1.5
    assert Overloaded("full", retry_after_s=1.5).code == "overloaded"


@pytest.mark.parametrize("kind", [ConfigError, CheckpointError, Unsupported])
def test_what_the_operator_can_mend_is_told_apart_from_the_rest(kind: type[Exception]) -> None:
    assert issubclass(kind, OperatorError)
    assert not issubclass(kind, RequestRefused)
    assert not issubclass(EngineDied, OperatorError)


def test_a_request_that_broke_is_not_the_clients_fault() -> None:
    error = RequestFailed("row 3 is not finite")

    assert (error.message, error.status) == ("row 3 is not finite", 500)
    assert not isinstance(error, RequestRefused)


class AcceleratorError(RuntimeError):
    """As torch calls it."""


class OutOfContext(AcceleratorError):
    """A kind of it."""


@pytest.mark.parametrize(
    ("error", "lost"),
    [(AcceleratorError(), True), (OutOfContext(), True), (RuntimeError("CUDA"), False)],
)
def test_a_lost_device_is_known_by_the_name_of_its_error(error: Exception, lost: bool) -> None:
    assert is_device_lost(error) is lost


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (CheckpointError("cut off\n  after 3 bytes"), "cut off after 3 bytes"),
        (ValueError("no\nnumber"), "ValueError: no number"),
        (KeyError(), "KeyError"),
    ],
)
def test_an_error_fits_on_one_line(error: Exception, line: str) -> None:
    assert one_line(error) == line


@pytest.mark.parametrize(
    ("error", "mends"),
    [
        (CheckpointError("cut off"), True),
        (MemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("a bug"), False),
    ],
)
def test_a_start_without_memory_is_for_the_operator(error: Exception, mends: bool) -> None:
    assert can_operator_mend(error) is mends
