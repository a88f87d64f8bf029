"""The four shapes of a prompt: text, texts, token ids, lists of token ids."""

from __future__ import annotations

from octavo.api.http.schema.checking import shown
from octavo.kit.errors import RequestRefused

TextOrTokens = str | list[str] | list[int] | list[list[int]]

_MAX_PROMPTS = 2048
_MAX_TOKEN_ID = 2**31 - 1


def checked_prompts(value: object) -> list[str | list[int]]:
    """One list of prompts from any of the four shapes.

    Written by hand: a union would try each shape on a million ids and name none of them.

    Raises:
        RequestRefused: names the place in ``prompt``.
    """
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise _refused("prompt", value, "must be text, token ids, or a list of either")
    if not value:
        raise RequestRefused(
            "prompt is empty: must have text.", param="prompt", code="empty_prompt"
        )
    if type(value[0]) is int:
        return [_token_ids("prompt", value)]
    if len(value) > _MAX_PROMPTS:
        raise RequestRefused(
            f"prompt has {len(value)} prompts: must have at most {_MAX_PROMPTS}. "
            "Send several requests.",
            param="prompt",
            code="invalid_value",
        )
    if isinstance(value[0], str):
        for index, text in enumerate(value):
            if not isinstance(text, str):
                raise _refused(f"prompt[{index}]", text, "must be a string, as the first one is")
        return value
    return [_token_ids(f"prompt[{index}]", token_ids) for index, token_ids in enumerate(value)]


def _token_ids(place: str, value: object) -> list[int]:
    if not isinstance(value, list) or not value:
        raise _refused(place, value, "must be a list of token ids that is not empty")
    if set(map(type, value)) == {int} and min(value) >= 0 and max(value) <= _MAX_TOKEN_ID:
        return value
    for index, token_id in enumerate(value):
        if type(token_id) is not int or not 0 <= token_id <= _MAX_TOKEN_ID:
            raise _refused(f"{place}[{index}]", token_id, "must be a token id, an integer from 0")
    raise AssertionError("one of the ids is wrong")


def _refused(place: str, value: object, wanted: str) -> RequestRefused:
    return RequestRefused(f"{place}={shown(value)}: {wanted}.", param=place, code="invalid_value")
