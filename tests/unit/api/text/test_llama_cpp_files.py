"""Vocabularies and chat templates of many models, as llama.cpp's source carries them.

They are the folder ``vendor/llama.cpp/models`` of llama-cpp-python's source distribution, put
into the cache folder as ``llama.cpp-models``.
"""

from __future__ import annotations

from typing import Any

import pytest
from jinja2 import TemplateError
from transformers.utils.chat_template_utils import render_jinja_template

from octavo.api.text.chat_template import ChatTemplate
from octavo.api.text.loading import load_tokenizer
from octavo.kit.errors import RequestRefused
from tests.real_models import cached_model

pytestmark = pytest.mark.long

VOCABULARIES = (
    "command-r", "deepseek-coder", "falcon", "gpt-2", "llama-bpe", "llama-spm", "mpt", "phi-3",
    "qwen2", "qwen35", "refact", "starcoder",
)  # fmt: skip
_BETWEEN_INPUTS = "\n__ggml_vocab_test__\n"
_SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
_TOOL = {
    "name": "weather",
    "description": "Look it up",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "where"}},
        "required": ["city"],
    },
}
TOOLS = [{"type": "function", "function": _TOOL}]
_CALL = {
    "id": "call12345",
    "type": "function",
    "function": {"name": "weather", "arguments": {"city": "A"}},
}
_USER = {"role": "user", "content": "Hi  there"}
_CALLED = [
    _USER,
    {"role": "assistant", "content": "", "tool_calls": [_CALL]},
    {"role": "tool", "content": '{"t":3}', "tool_call_id": "call12345", "name": "weather"},
]
CHATS: list[tuple[list[dict[str, Any]], list[dict[str, Any]] | None]] = [
    ([_USER], None),
    (
        [{"role": "system", "content": "sys"}, _USER, {"role": "assistant", "content": "x"}, _USER],
        None,
    ),
    ([_USER], TOOLS),
    (_CALLED, TOOLS),
]


@pytest.mark.parametrize("name", VOCABULARIES)
def test_vocabularies_give_the_recorded_token_ids(name: str) -> None:
    path = cached_model("llama.cpp-models") / f"ggml-vocab-{name}.gguf"
    tokenizer = load_tokenizer(str(path))
    with open(f"{path}.inp", encoding="utf-8", newline="") as file:
        texts = file.read().split(_BETWEEN_INPUTS)
    with open(f"{path}.out", encoding="utf-8") as file:
        recorded = [[int(token_id) for token_id in line.split()] for line in file]

    assert len(texts) > 40
    for text, token_ids in zip(texts, recorded, strict=False):
        assert tokenizer.encode(text, add_special_tokens=False) == token_ids
        assert tokenizer.decode(token_ids).removeprefix(" ") == text.removeprefix(" ")


def test_templates_render_as_in_transformers() -> None:
    paths = sorted((cached_model("llama.cpp-models") / "templates").glob("*.jinja"))
    assert len(paths) >= 70
    for path in paths:
        for messages, tools in CHATS:
            text = path.read_text(encoding="utf-8")
            try:
                [[theirs], _] = render_jinja_template(
                    conversations=[messages],
                    chat_template=text,
                    tools=tools,
                    add_generation_prompt=True,
                    **_SPECIAL,
                )
            except (TemplateError, TypeError):
                with pytest.raises(RequestRefused):
                    ChatTemplate(text, _SPECIAL).render(messages, tools=tools)
                continue
            assert ChatTemplate(text, _SPECIAL).render(messages, tools=tools) == theirs, path.name
