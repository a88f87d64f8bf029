"""Messages and tools to prompt text, by the model's own Jinja template, in a sandbox.

A template is somebody else's program. It sees plain data only, cannot change it, and is bounded
in time and in the size of what it writes.
"""

from __future__ import annotations

import ctypes
import json
import threading
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from octavo.api.text.chat_messages import ContentForm, prepare_messages
from octavo.kit.errors import RequestRefused

MAX_TEMPLATE_CHARS = 1 << 20
MAX_RENDERED_CHARS = 1 << 24
MAX_RENDER_S = 10.0

Json = Any  # Any: JSON of the request, as the template sees it


class ChatTemplate:
    """One compiled template. Thread-safe.

    Raises:
        RequestRefused: the text is no template; the message says where.
    """

    def __init__(self, text: str, special_tokens: Mapping[str, str]) -> None:
        if len(text) > MAX_TEMPLATE_CHARS:
            raise RequestRefused(
                f"chat_template has {len(text)} characters, at most {MAX_TEMPLATE_CHARS} are read.",
                param="chat_template",
            )
        self._special_tokens = special_tokens
        environment = _Environment()
        try:
            tree = environment.parse(text)
            self._template = environment.from_string(tree)
        except (jinja2.TemplateError, RecursionError) as error:
            raise RequestRefused(
                f"chat_template is no template that octavo can run: {_explain(error)}",
                param="chat_template",
            ) from error
        self.content_form = ContentForm.of(tree)

    def render(
        self,
        messages: list[dict[str, Json]],
        *,
        tools: list[dict[str, Json]] | None = None,
        add_generation_prompt: bool = True,
        template_kwargs: Mapping[str, Json] | None = None,
    ) -> str:
        """Return the prompt text.

        Raises:
            RequestRefused: the template refuses these messages, or is out of bounds.
        """
        values = {
            **self._special_tokens,
            **(template_kwargs or {}),
            "messages": prepare_messages(messages, self.content_form),
            "tools": tools,
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            with _time_limit(MAX_RENDER_S):
                return _join(self._template.generate(values))
        except _OutOfTime:
            raise _refused(f"it ran for more than {MAX_RENDER_S:g} s") from None
        except RequestRefused:
            raise
        except Exception as error:  # guard of this request: a template may raise anything
            raise _refused(_explain(error)) from error

    def render_continued(
        self,
        messages: list[dict[str, Json]],
        *,
        tools: list[dict[str, Json]] | None = None,
        template_kwargs: Mapping[str, Json] | None = None,
    ) -> str:
        """Return the prompt text up to the end of the last message, which the model continues.

        Raises:
            RequestRefused: as ``render``, or the template does not show the last message.
        """
        last = prepare_messages(messages, ContentForm.TEXT)[-1]
        if not isinstance(last.get("content"), str):
            raise RequestRefused(
                "continue_final_message needs text in the last message.",
                param=f"messages[{len(messages) - 1}].content",
            )
        marked = {**last, "content": last["content"] + _END_MARK}
        text = self.render(
            [*messages[:-1], marked],
            tools=tools,
            add_generation_prompt=False,
            template_kwargs=template_kwargs,
        )
        shown, mark, _ = text.rpartition(_END_MARK)
        if not mark:
            raise _refused("it does not show the last message, so that cannot be continued")
        return shown


_END_MARK = "\ue000octavo:end\ue001"


class _OutOfTime(BaseException):
    """Raised inside a template that runs for too long; templates cannot catch it."""


class _Environment(ImmutableSandboxedEnvironment):
    """Jinja as chat templates expect it, with bounds on what one expression can make."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        self.filters["tojson"] = _to_json
        for name in ("center", "format", "xmlattr", "urlize", "pprint", "random"):
            del self.filters[name]
        self.globals = {
            "range": self.globals["range"],
            "namespace": self.globals["namespace"],
            "dict": dict,
            "raise_exception": _raise_exception,
            "strftime_now": _strftime_now,
        }
        self.concat = _join  # type: ignore[assignment]  # bounded, also for set blocks and macros

    def call_binop(
        self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any
    ) -> Any:  # Any: whatever the template computes with
        if operator in ("*", "**", "%") and not _is_small(operator, left, right):
            raise _refused(f"'{operator}' would make a value of more than {MAX_RENDERED_CHARS}")
        return _bounded(super().call_binop(context, operator, left, right))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str) and attr in _PADDING_METHODS:
            return False
        return super().is_safe_attribute(obj, attr, value)

    def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:  # Any: as above
        return _bounded(super().call(context, obj, *args, **kwargs))


_PADDING_METHODS = frozenset(
    {"center", "ljust", "rjust", "zfill", "expandtabs", "format", "format_map", "translate"}
)


class _Generation(Extension):
    """``{% generation %}`` marks what an assistant wrote; it does not change the text."""

    tags = {"generation"}  # noqa: RUF012 - the base class declares it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _join(pieces: Iterable[str]) -> str:
    parts, size = list[str](), 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_RENDERED_CHARS:
            raise _refused(f"it wrote more than {MAX_RENDERED_CHARS} characters")
        parts.append(piece)
    return "".join(parts)


def _bounded(value: Any) -> Any:  # Any: whatever the template computes with
    if isinstance(value, str | bytes | list | tuple) and len(value) > MAX_RENDERED_CHARS:
        raise _refused(f"a value has more than {MAX_RENDERED_CHARS} characters or items")
    return value


def _is_small(operator: str, left: Any, right: Any) -> bool:  # Any: as above
    match operator, left, right:
        case "*", (str() | list() | tuple()), int():
            return len(left) * right <= MAX_RENDERED_CHARS
        case "*", int(), (str() | list() | tuple()):
            return len(right) * left <= MAX_RENDERED_CHARS
        case ("*" | "**"), int(), int():
            bits = left.bit_length() * (right if operator == "**" else 1)
            return bits <= 4096
        case "%", str(), _:
            return False
        case _:
            return True


def _to_json(
    value: Any,  # Any: JSON of the request
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - the signature that templates call
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002 - as above
) -> str:
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii,
        indent=None if indent is None else min(int(indent), 16),
        separators=separators,
        sort_keys=sort_keys,
    )
    return _join(encoder.iterencode(value))


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(str(message))


def _strftime_now(form: str) -> str:
    return datetime.now().astimezone().strftime(form[:1000])


def _explain(error: BaseException) -> str:
    line = getattr(error, "lineno", None)
    where = f" (line {line} of the template)" if line else ""
    return f"{error or type(error).__name__}{where}"[:1000]


def _refused(reason: str) -> RequestRefused:
    return RequestRefused(
        f"the chat template refuses these messages: {reason}. "
        "Change the messages, or give another template with --chat-template.",
        param="messages",
    )


class _Watch:
    """Interrupts one thread, unless it is told first that the thread has finished."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._done = False

    def interrupt(self) -> None:
        with self._lock:
            if not self._done:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(_OutOfTime)
                )

    def stop(self) -> None:
        with self._lock:
            self._done = True


@contextmanager
def _time_limit(limit_s: float) -> Any:  # Any: a generator behind a decorator
    """Raise ``_OutOfTime`` in this thread if the body runs longer; loops end at once."""
    watch = _Watch()
    timer = threading.Timer(limit_s, watch.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        watch.stop()
        timer.cancel()
