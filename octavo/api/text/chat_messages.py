"""Messages of a chat request in the form that a template reads."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from jinja2 import nodes

from octavo.kit.errors import RequestRefused

Json = Any  # Any: JSON of the request, as the template sees it


class ContentForm(Enum):
    """What a template takes ``message.content`` for."""

    TEXT = "text"
    """A string: lists of parts are joined."""
    EITHER = "either"
    """It looks which of the two it has: nothing is changed."""
    PARTS = "parts"
    """A list of parts: strings are wrapped."""

    @classmethod
    def of(cls, template: nodes.Template) -> ContentForm:
        """Read the form off what the template does with content."""
        names = {"content"} | {
            assign.target.name
            for assign in template.find_all(nodes.Assign)
            if isinstance(assign.target, nodes.Name) and _reads_content(assign.node, {"content"})
        }
        loops = any(_reads_content(loop.iter, names) for loop in template.find_all(nodes.For))
        if not loops:
            return cls.TEXT
        looks = any(
            test.name in ("string", "iterable", "sequence") and _reads_content(test.node, names)
            for test in template.find_all(nodes.Test)
        )
        return cls.EITHER if looks else cls.PARTS


def prepare_messages(messages: list[dict[str, Json]], form: ContentForm) -> list[dict[str, Json]]:
    """Return copies of ``messages`` with content in ``form`` and tool arguments as objects.

    Raises:
        RequestRefused: a message has another shape than the OpenAI API allows.
    """
    if not messages:
        raise RequestRefused("messages is empty: must hold at least one message.", param="messages")
    return [_prepare(message, form, f"messages[{i}]") for i, message in enumerate(messages)]


def _prepare(message: Json, form: ContentForm, where: str) -> dict[str, Json]:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise RequestRefused(f"{where} must be an object with a role.", param=where)
    prepared = dict(message)
    prepared["content"] = _content(message.get("content"), form, f"{where}.content")
    calls = message.get("tool_calls")
    if calls:
        prepared["tool_calls"] = [
            _tool_call(call, f"{where}.tool_calls[{i}].function") for i, call in enumerate(calls)
        ]
    elif "tool_calls" in prepared:
        del prepared["tool_calls"]  # an empty list means the same as none, except to templates
    return prepared


def _content(content: Json, form: ContentForm, where: str) -> Json:
    if content is None:
        return [] if form is ContentForm.PARTS else ""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if form is ContentForm.PARTS else content
    if not isinstance(content, list):
        raise RequestRefused(
            f"{where} is a {type(content).__name__}: must be a string or a list of parts.",
            param=where,
        )
    texts = [_part_text(part, f"{where}[{i}]") for i, part in enumerate(content)]
    if form is ContentForm.TEXT:
        return "\n".join(texts)
    return [{"type": "text", "text": text} for text in texts]


def _part_text(part: Json, where: str) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("text", "input_text", "output_text", "refusal"):
        text = part.get("refusal" if kind == "refusal" else "text")
        if isinstance(text, str):
            return text
        raise RequestRefused(f"{where}.text must be a string.", param=where)
    raise RequestRefused(
        f"{where} has type {kind!r}: this server reads parts of type 'text' only.", param=where
    )


def _tool_call(call: Json, where: str) -> Json:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise RequestRefused(f"{where} is missing: must be an object.", param=where)
    return {**call, "function": {**function, "arguments": _arguments(function, where)}}


def _arguments(function: dict[str, Json], where: str) -> Json:
    """Templates read arguments as an object; the API sends them as its JSON text."""
    arguments = function.get("arguments")
    if arguments in (None, ""):
        return {}
    if not isinstance(arguments, str):
        return arguments
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise RequestRefused(
            f"{where}.arguments is no JSON ({error}): must be the JSON text of an object.",
            param=f"{where}.arguments",
        ) from None
    if not isinstance(value, dict):
        raise RequestRefused(
            f"{where}.arguments is JSON of another kind: must be that of an object.",
            param=f"{where}.arguments",
        )
    return value


def _reads_content(node: nodes.Node, names: set[str]) -> bool:
    """Whether ``node`` is ``message.content``, ``message['content']`` or a name for it."""
    if isinstance(node, nodes.Filter) and node.node is not None:
        return _reads_content(node.node, names)
    if isinstance(node, nodes.Getattr):
        return node.attr == "content"
    if isinstance(node, nodes.Getitem):
        return isinstance(node.arg, nodes.Const) and node.arg.value == "content"
    return isinstance(node, nodes.Name) and node.name in names
