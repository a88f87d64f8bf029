"""The exception tree: who can act decides the class."""

from __future__ import annotations


class OctavoError(Exception):
    """Base of every error that octavo raises on purpose."""


class RequestRefused(OctavoError):
    """The request is wrong; the client can change it. That request ends, no other.

    ``param`` names the field, ``status`` is the HTTP status it maps to, ``code`` the
    machine-readable reason of the OpenAI error body.
    """

    status: int = 400
    kind: str = "invalid_request_error"

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


class NotFound(RequestRefused):
    """The request names something that is not here."""

    status = 404
    kind = "not_found_error"


class Overloaded(RequestRefused):
    """The server's queue is full; the same request may be sent again after ``retry_after_s``."""

    status = 429
    kind = "rate_limit_error"

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message, code="overloaded")
        self.retry_after_s = retry_after_s


class PromptTooLong(RequestRefused):
    """Prompt and answer do not fit into the model's context."""

    def __init__(
        self, *, num_prompt_tokens: int, max_tokens: int, limit: int, param: str = "prompt"
    ) -> None:
        place = param if "[" in param else "prompt"
        too_many = num_prompt_tokens + max_tokens - limit
        super().__init__(
            f"{place} has {counted(num_prompt_tokens, 'token')} and max_tokens is {max_tokens}, "
            f"but the model's context holds {limit}. Shorten the prompt by "
            f"{counted(too_many, 'token')} or lower max_tokens.",
            param=param,
            code="context_length_exceeded",
        )


class OperatorError(OctavoError):
    """The setup is wrong; the operator can change it. One line, exit code 2."""


class ConfigError(OperatorError):
    """An option has a value that cannot work."""

    def __init__(self, option: str, value: object, *, want: str, fix: str) -> None:
        super().__init__(f"{option}={value!r}: {want}. {fix}")
        self.option = option
        self.want = want


class CheckpointError(OperatorError):
    """A model file is missing, cut off, foreign, or does not fit its configuration."""


class Unsupported(OperatorError):
    """A model or device asks for something octavo does not have; the message says what it has."""


class EngineDied(OctavoError):
    """The engine process ended while requests were running; nothing can be served any more."""


class RequestFailed(OctavoError):
    """One accepted request broke while it ran, through no fault of the client."""

    def __init__(self, message: str, *, status: int = 500) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


def is_device_lost(error: BaseException) -> bool:
    """Whether the error leaves the accelerator's context unusable.

    Told by the name of the class, since the engine knows no torch.
    """
    return any(kind.__name__ == "AcceleratorError" for kind in type(error).__mro__)


def can_operator_mend(error: BaseException) -> bool:
    """Whether a start that failed with this is a matter of the setup, memory included."""
    if isinstance(error, OperatorError | MemoryError):
        return True
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return "OutOfMemoryError" in kinds or "can't allocate memory" in str(error)  # torch


def one_line(error: BaseException) -> str:
    """The error as one line; the class is named where the message is not ours."""
    text = " ".join(str(error).split())
    if isinstance(error, OctavoError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def counted(number: int, noun: str) -> str:
    """Number and noun, in singular or plural."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
