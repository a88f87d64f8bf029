"""Messages and tools to prompt text, by the model's own Jinja template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jinja2

from octavo.api.text.chat_messages import ContentForm, prepare_messages
from octavo.api.text.sandbox import Sandbox, join_bounded
from octavo.api.text.time_limit import OutOfTime, time_limit
from octavo.api.text.tokenizer import Tokenizer
from octavo.kit.errors import CheckpointError, ConfigError, RequestRefused

MAX_TEMPLATE_CHARS = 1 << 20
MAX_RENDER_S = 10.0

_NO_TEMPLATE = (jinja2.TemplateError, RecursionError, SyntaxError, ValueError, MemoryError)
"""jinja2's errors, and those of Python's compiler, to which it hands deep or odd nesting."""

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
        environment = Sandbox()
        try:
            tree = environment.parse(text)
            self._template = environment.from_string(tree)
        except _NO_TEMPLATE as error:
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
            with time_limit(MAX_RENDER_S):
                return join_bounded(self._template.generate(values))
        except OutOfTime:
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


class ChatTemplates:
    """Compiled chat templates: the operator's or the model's, and one a request brought."""

    def __init__(self, chosen: str | None, tokenizer: Tokenizer) -> None:
        """Compile those that the server has.

        Raises:
            ConfigError: the operator's is no template.
            CheckpointError: the model's is none.
        """
        self._special_tokens = tokenizer.special_tokens
        texts = {"default": chosen} if chosen else tokenizer.chat_templates
        try:
            self._compiled = {
                name: ChatTemplate(text, self._special_tokens) for name, text in texts.items()
            }
        except RequestRefused as error:
            reason = error.message.removeprefix("chat_template ")
            fix = "Give a Jinja template, or a file with one"
            if chosen:
                raise ConfigError(
                    "chat_template", chosen[:80], want=reason, fix=f"{fix}."
                ) from None
            raise CheckpointError(
                f"the model's chat template {reason}. {fix}, with --chat-template."
            ) from None

    @property
    def has_default(self) -> bool:
        """A request needs to bring none."""
        return "default" in self._compiled

    def find(self, text: str | None, *, has_tools: bool) -> ChatTemplate:
        """The template for a request.

        Raises:
            RequestRefused: the model has none, or the one of the request is none.
        """
        if text is not None:
            return ChatTemplate(text, self._special_tokens)
        name = "tool_use" if has_tools and "tool_use" in self._compiled else "default"
        if name not in self._compiled:
            raise RequestRefused(
                "this model has no chat template, so it reads no messages. Use "
                "/v1/completions, or start the server with --chat-template.",
                param="messages",
            )
        return self._compiled[name]


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
