"""Values against pydantic schemas; the first error names field, value and bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from octavo.kit.errors import RequestRefused

T = TypeVar("T")

_MAX_SHOWN = 100
_WANTED = {
    "missing": "is required",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "finite_number": "must be a finite number",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "literal_error": "must be one of {expected}",
    "too_long": "must have at most {max_length} items",
    "too_short": "must have at least {min_length} items",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
}


def checked(validate: Callable[[object], T], value: object, *, at: str = "") -> T:
    """What a schema's ``validate`` makes of ``value``; ``at`` is its place in the request.

    Raises:
        RequestRefused: ``value`` breaks the schema.
    """
    try:
        return validate(value)
    except ValidationError as error:
        raise _refusal(_first(error.errors(include_url=False)), at) from None


def field_path(location: tuple[int | str, ...]) -> str:
    """A place in a body, such as ``messages[0].content``."""
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{step}" if path else step
    return path


def shown(value: object) -> str:
    """``value`` for a message: never long."""
    if isinstance(value, (list, dict)) and len(value) > 8:
        return f"a {type(value).__name__} of {len(value)} items"
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."


def _first(errors: list[ErrorDetails]) -> ErrorDetails:
    """The first error; of a text or list, the one of the kind that was given."""
    first = errors[0]
    if _is_of_text(first) and isinstance(first["input"], list) and len(errors) > 1:
        return errors[1]
    return first


def _is_of_text(error: ErrorDetails) -> bool:
    """Whether the error is about one alternative of a text or list."""
    return bool(error["loc"]) and error["loc"][-1] == "str"


def _is_field(step: int | str) -> bool:
    """False for the names that pydantic gives to the alternatives of a field."""
    return isinstance(step, int) or not (step == "str" or step.startswith("list["))


def _refusal(error: ErrorDetails, at: str) -> RequestRefused:
    location = tuple(filter(_is_field, error["loc"]))
    field = field_path((at, *location) if at else location)
    wanted = _WANTED.get(error["type"])
    if wanted and error["type"] == "string_type" and _is_of_text(error):
        wanted += " or a list"
    bounds = {name: _bound(value) for name, value in error.get("ctx", {}).items()}
    text = wanted.format(**bounds) if wanted else error["msg"].lower()
    given = "" if error["type"] == "missing" else f"={shown(error['input'])}"
    return RequestRefused(f"{field}{given}: {text}.", param=field or None, code="invalid_value")


def _bound(value: Any) -> str:  # Any: whatever bounds the schema has
    return f"{value:g}" if isinstance(value, float) else str(value)
