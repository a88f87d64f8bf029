"""Chat messages, and the plain form that a chat template takes."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from octavo.api.http.schema.checking import checked
from octavo.kit.errors import RequestRefused

Short = Annotated[str, Field(max_length=1024)]


class ContentPart(BaseModel):
    """Piece of a message; text is the only kind this model takes."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    type: Short
    text: str | None = None


class CalledFunction(BaseModel):
    """Name and arguments of a call that the history holds."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    name: Short
    arguments: str | None = None


class ToolCall(BaseModel):
    """A call that an earlier answer made."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    id: Short | None = None
    type: Literal["function"] = "function"
    function: CalledFunction


class ChatTurn(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = None
    name: Short | None = None
    tool_calls: Annotated[list[ToolCall], Field(max_length=1024)] | None = None
    tool_call_id: Short | None = None
    refusal: str | None = None
    reasoning_content: str | None = None


_TURNS = TypeAdapter(list[ChatTurn])


def conversation(turns: list[ChatTurn]) -> list[dict[str, object]]:
    """The messages as a chat template takes them.

    Raises:
        RequestRefused: a part is not text, a content is missing, or a call's arguments are not
            a JSON object; names the place.
    """
    return [_message(f"messages[{index}]", turn) for index, turn in enumerate(turns)]


def read_conversation(messages: object, *, at: str = "messages") -> list[dict[str, object]]:
    """The same from plain values, such as a script has.

    Raises:
        RequestRefused: as ``conversation``; also where ``messages`` is no list of messages.
    """
    turns = checked(_TURNS.validate_python, messages, at=at)
    if not turns:
        raise RequestRefused(f"{at} is empty: must have a message.", param=at)
    return conversation(turns)


def _message(place: str, turn: ChatTurn) -> dict[str, object]:
    role = "system" if turn.role == "developer" else turn.role
    message: dict[str, object] = {"role": role, "content": _text(place, turn)}
    optional = {
        "name": turn.name,
        "tool_call_id": turn.tool_call_id,
        "reasoning_content": turn.reasoning_content,
    }
    message |= {name: value for name, value in optional.items() if value is not None}
    if turn.tool_calls:
        message["tool_calls"] = [
            _call(f"{place}.tool_calls[{index}]", call)
            for index, call in enumerate(turn.tool_calls)
        ]
    return message


def _text(place: str, turn: ChatTurn) -> str:
    if isinstance(turn.content, str):
        return turn.content
    if turn.content is None:
        if turn.role == "assistant":
            return turn.refusal or ""
        raise _refused(f"{place}.content", "is required for this role")
    return "\n".join(
        _part(f"{place}.content[{index}]", part) for index, part in enumerate(turn.content)
    )


def _part(place: str, part: ContentPart) -> str:
    if part.type not in ("text", "input_text", "output_text"):
        raise _refused(f"{place}.type", f"is {part.type[:100]!r}, but this model takes text only")
    if part.text is None:
        raise _refused(f"{place}.text", "is required")
    return part.text


def _call(place: str, call: ToolCall) -> dict[str, object]:
    return {
        "id": call.id,
        "type": call.type,
        "function": {
            "name": call.function.name,
            "arguments": _arguments(f"{place}.function.arguments", call.function.arguments),
        },
    }


def _arguments(place: str, text: str | None) -> dict[str, object]:
    try:
        value = msgspec.json.decode(text or "{}", type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        shown = (text or "")[:100]
        raise _refused(place, f"is {shown!r}, must be the text of a JSON object: {error}") from None
    return value


def _refused(place: str, text: str) -> RequestRefused:
    return RequestRefused(f"{place} {text}.", param=place, code="invalid_value")
