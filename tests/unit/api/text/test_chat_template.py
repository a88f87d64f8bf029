"""What templates are given, and hostile templates against their bounds."""

from __future__ import annotations

import time
from typing import Any

import pytest

from octavo.api.text import chat_template, time_limit
from octavo.api.text.chat_messages import ContentForm
from octavo.api.text.chat_template import ChatTemplate, ChatTemplates
from octavo.api.text.loading import load_tokenizer
from octavo.kit.errors import CheckpointError, RequestRefused
from octavo.testing.fake_tokenizer import FakeTokenizer
from tests.real_models import demo_model

TOOLS = [{"type": "function", "function": {"name": "weather"}}]
USER = {"role": "user", "content": "Hi  \n there "}
ASSISTANT = {"role": "assistant", "content": "Hello!"}
Message = dict[str, Any]


def render(template: str, messages: list[Message] | None = None, **kwargs: Any) -> str:
    return ChatTemplate(template, {"bos_token": "<s>"}).render(messages or [USER], **kwargs)


def test_what_templates_of_other_models_use_is_there() -> None:
    template = (
        "{{ bos_token }}{%- set ns = namespace(first=true) -%}\n"
        "{%- for message in messages -%}{%- if not loop.first %}{% break %}{% endif -%}\n"
        "    {% if ns.first %}\n"
        "{% generation %}{{ message.content.strip() }}{% endgeneration %}\n"
        "    {% endif %}{% set ns.first = false %}\n"
        "{%- endfor -%}{{ strftime_now('%Y')|length }}{{ {'a': '<é>'} | tojson }}"
    )

    assert render(template, [USER, USER]) == '<s>Hi  \n there4{"a": "<é>"}'


def test_raise_exception_becomes_a_refusal_that_names_messages() -> None:
    with pytest.raises(RequestRefused, match="roles must alternate") as caught:
        render("{{ raise_exception('roles must alternate') }}")
    assert caught.value.param == "messages"


def test_macros_take_arguments_of_any_name() -> None:
    template = (
        "{% macro m(context, obj) %}{{ context }}{{ obj }}{% endmacro %}{{ m(context=1, obj=2) }}"
    )

    assert render(template) == "12"


def test_a_broken_template_names_its_line() -> None:
    with pytest.raises(RequestRefused, match="line 2") as caught:
        ChatTemplate("a\n{% for %}", {})
    assert caught.value.param == "chat_template"


def test_template_arguments_reach_the_template_and_cannot_replace_messages() -> None:
    text = render(
        "{{ think }}{{ messages|length }}",
        template_kwargs={"think": "deep", "messages": [1, 2, 3]},
    )

    assert text == "deep1"


@pytest.mark.parametrize(
    ("template", "form"),
    [
        ("{{ messages[0].content }}", ContentForm.TEXT),
        ("{{ messages[0]['content'] | trim }}", ContentForm.TEXT),
        ("{% for p in messages[0].content %}{{ p.text }}{% endfor %}", ContentForm.PARTS),
        (
            "{% set c = messages[0]['content'] %}{% if c is string %}{{ c }}{% else %}"
            "{% for p in c %}{{ p.text }}{% endfor %}{% endif %}",
            ContentForm.EITHER,
        ),
    ],
)
def test_content_is_given_in_the_form_that_the_template_reads(
    template: str, form: ContentForm
) -> None:
    compiled = ChatTemplate(template, {})
    parts = [{"type": "text", "text": "a"}]

    assert compiled.content_form is form
    assert compiled.render([{"role": "user", "content": "a"}]) == "a"
    assert compiled.render([{"role": "user", "content": parts}]) == "a"


def test_several_parts_become_lines() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]

    assert render("{{ messages[0].content }}", [{"role": "user", "content": parts}]) == "a\nb"


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("Hi", "messages[1]"),
        ({"content": "Hi"}, "messages[1]"),
        ({"role": "user", "content": 3}, "messages[1].content"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "messages[1].content[0]"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[1].content[0]"),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]},
            "messages[1].tool_calls[0].function.arguments",
        ),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}]},
            "messages[1].tool_calls[0].function.arguments",
        ),
        ({"role": "assistant", "tool_calls": [{}]}, "messages[1].tool_calls[0].function"),
    ],
)
def test_messages_of_another_shape_are_refused_by_name(message: Message, param: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        render("{{ messages[0].content }}", [USER, message])
    assert caught.value.param == param


def test_tool_arguments_reach_the_template_as_an_object() -> None:
    call = {"function": {"name": "f", "arguments": '{"x": 1}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    template = "{{ messages[0].content }}{{ messages[0].tool_calls[0].function.arguments.x }}"

    assert render(template, [message]) == "1"
    assert call["function"]["arguments"] == '{"x": 1}'


def test_the_last_message_is_continued_where_it_ends() -> None:
    tokenizer = load_tokenizer(str(demo_model()))
    template = ChatTemplate(tokenizer.chat_templates["default"], {})

    text = template.render_continued([USER, {"role": "assistant", "content": "The answer is "}])

    assert text.endswith("<|im_start|>assistant\nThe answer is ")


def test_continuing_what_the_template_hides_is_refused() -> None:
    with pytest.raises(RequestRefused, match="does not show the last message"):
        ChatTemplate("nothing", {}).render_continued([USER, ASSISTANT])


def test_tools_take_the_template_that_is_there_for_them() -> None:
    tokenizer = FakeTokenizer()
    tokenizer.chat_templates = {"default": "plain", "tool_use": "with tools"}
    templates = ChatTemplates(None, tokenizer)

    assert templates.find(None, has_tools=False).render([USER]) == "plain"
    assert templates.find(None, has_tools=True).render([USER], tools=TOOLS) == "with tools"


def test_a_model_without_template_reads_no_messages() -> None:
    tokenizer = FakeTokenizer()
    tokenizer.chat_templates = {}

    with pytest.raises(RequestRefused, match="has no chat template"):
        ChatTemplates(None, tokenizer).find(None, has_tools=False)


ESCAPES = [
    "{{ ''.__class__.__mro__ }}",
    "{{ messages.__class__ }}",
    "{{ messages.append(1) }}",
    "{{ messages[0].update({'role': 'x'}) }}",
    "{{ raise_exception.__globals__ }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ self.__init__.__globals__ }}",
    "{% include 'x' %}",
    "{{ dict.__subclasses__() }}",
    "{{ strftime_now.__self__ }}",
    "{{ (messages|map(attribute='__class__')|list)[0].__mro__ }}",
]


@pytest.mark.parametrize("template", ESCAPES)
def test_a_template_cannot_leave_the_sandbox(template: str) -> None:
    messages = [dict(USER)]

    try:
        shown = render(template, messages)
    except RequestRefused:
        shown = ""

    assert shown == ""
    assert messages == [USER]


def grow(start: str, step: str, use: str = "") -> str:
    """A template that makes ``x`` larger 99 times, then uses it."""
    return (
        f"{{% set ns = namespace(x={start}) %}}{{% for i in range(99) %}}{step}{{% endfor %}}{use}"
    )


TOO_LARGE = [
    "{{ 'x' * 10**12 }}",
    "{{ [0] * 10**12 }}",
    "{{ 10 ** (10 ** 10) }}",
    "{{ '%0999999999d' % 1 }}",
    "{{ 'x'.ljust(10**12) }}",
    "{{ '{:>999999999}'.format(1) }}",
    "{{ range(10**9) | list }}",
    "{{ 'a\\nb' | indent(10**10) }}",
    "{{ [1] | batch(10**9, 'x') | list }}",
    "{{ 1.5 | round(10**9) }}",
    grow("'x'", "{% set ns.x = ns.x ~ ns.x %}"),
    grow("'x'", "{% set ns.x = ns.x + ns.x %}"),
    grow("'x'", "{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}"),
    grow("'xx'", "{% set ns.x = ns.x | replace('x', ns.x) %}"),
    grow("'xx'", "{% set ns.x = ns.x.replace('x', ns.x) %}"),
    grow("'xx'", "{% set ns.x = ns.x | list | join(ns.x) %}"),
    grow("'xx'", "{% set ns.x = ns.x.join(ns.x) %}"),
    grow("['x']", "{% set ns.x = [ns.x, ns.x] %}", "{{ ns.x | tojson }}"),
    grow("['x']", "{% set ns.x = [ns.x, ns.x] %}", "{{ ns.x }}"),
    grow("{'a': 1}", "{% set ns.x = dict(a=ns.x, b=ns.x) %}", "{{ ns.x }}"),
    grow("{'a': 1}", "{% set ns.x = {'a': ns.x, 'b': ns.x} %}"),
    grow("(1, 2)", "{% set ns.x = (ns.x, ns.x) %}"),
    grow("[1]", "{% set ns.x = [ns.x] * 9 %}"),
    grow("[1]", "{% set ns.x = ns.x + ns.x %}"),
    "{% for a in range(99999) %}{% for b in range(99999) %}xxxxxxxxxx{% endfor %}{% endfor %}",
    "{% macro m(n) %}{{ m(n) }}{{ m(n) }}{% endmacro %}{{ m(1) }}",
]


@pytest.mark.parametrize("template", TOO_LARGE)
def test_a_template_cannot_make_more_than_its_bound(
    template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_template, "MAX_RENDER_S", 5.0)
    with pytest.raises(RequestRefused):
        render(template)


def test_a_template_that_loops_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "MAX_RENDER_S", 0.2)
    start = time.perf_counter()

    with pytest.raises(RequestRefused, match=r"more than 0\.2 s"):
        render(
            "{% for a in range(99999) %}{% for b in range(99999) %}{% set x = a %}"
            "{% endfor %}{% endfor %}"
        )

    assert time.perf_counter() - start < 2


def test_the_time_limit_does_not_hit_what_comes_after() -> None:
    for _ in range(50):
        try:
            with time_limit.time_limit(0.001):
                end = time.perf_counter() + 0.001
                while time.perf_counter() < end:
                    pass
        except time_limit.OutOfTime:
            continue
        time.sleep(0)


def test_a_broken_template_of_the_model_is_the_operators_to_mend() -> None:
    tokenizer = FakeTokenizer()
    tokenizer.chat_templates = {"default": "ok", "tool_use": "{% if %}"}

    with pytest.raises(CheckpointError, match=r"model's chat template is no template.*--chat-temp"):
        ChatTemplates(None, tokenizer)


def test_a_broken_template_of_a_request_is_the_clients_to_mend() -> None:
    templates = ChatTemplates("ok", FakeTokenizer())

    with pytest.raises(RequestRefused, match="chat_template is no template"):
        templates.find("{% if %}", has_tools=False)


def test_blocks_too_deep_for_the_compiler_are_refused_as_no_template() -> None:
    deep = "{% for a in messages %}" * 30 + "{% endfor %}" * 30

    with pytest.raises(RequestRefused, match="chat_template is no template"):
        ChatTemplate(deep, {})
