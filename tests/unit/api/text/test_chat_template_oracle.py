"""Templates of real models, as they render in transformers."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from octavo.api.text.chat_template import ChatTemplate
from octavo.api.text.loading import load_tokenizer
from octavo.api.text.tokenizer import Tokenizer
from tests.real_models import demo_model, qwen_model

pytestmark = pytest.mark.slow

MODELS = {"smollm2": demo_model, "qwen2.5": qwen_model}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Weather <now> & \"here\" in '日本'",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
USER = {"role": "user", "content": "Hi  \n there "}
SYSTEM = {"role": "system", "content": "Be brief."}
ASSISTANT = {"role": "assistant", "content": "Hello!"}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "weather", "arguments": {"city": "A"}},
        }
    ],
}
RESULT = {"role": "tool", "content": '{"t": 3}', "tool_call_id": "c1"}
CHATS = {
    "one turn": [USER],
    "system": [SYSTEM, USER],
    "many turns": [SYSTEM, USER, ASSISTANT, USER],
    "tool call": [USER, CALL, RESULT],
    "two results": [USER, CALL, RESULT, RESULT, USER],
}
Message = dict[str, Any]


@cache
def tokenizer_of(model: str) -> Tokenizer:
    return load_tokenizer(str(MODELS[model]()))


@pytest.mark.parametrize("tools", [None, TOOLS], ids=["no tools", "tools"])
@pytest.mark.parametrize("prompt", [True, False])
@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("model", MODELS)
def test_real_templates_render_as_in_transformers(
    model: str, chat: str, *, prompt: bool, tools: list[Message] | None
) -> None:
    tokenizer = tokenizer_of(model)
    text, messages = tokenizer.chat_templates["default"], CHATS[chat]
    [[theirs], _] = render_jinja_template(
        conversations=[messages],
        chat_template=text,
        tools=tools,
        add_generation_prompt=prompt,
        **tokenizer.special_tokens,
    )

    mine = ChatTemplate(text, tokenizer.special_tokens).render(
        messages, tools=tools, add_generation_prompt=prompt
    )

    assert mine == theirs
