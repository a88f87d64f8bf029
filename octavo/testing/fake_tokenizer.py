"""A tokenizer without a model: each byte of the text is a token, its id the byte's value."""

from __future__ import annotations

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from octavo.api.text.tokenizer import BYTE_OF_CHARACTER, Tokenizer, TokenizerParts

BOS_ID = 256
EOS_ID = 257
VOCAB_SIZE = 262

_SPECIAL = ("<bos>", "<eos>", "<|user|>", "<|assistant|>", "<|system|>")
_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message.role }}|>{{ message.content }}\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


class FakeTokenizer(Tokenizer):
    """A real tokenizer of 256 bytes, five special tokens, and ``<tool>``, which is not special."""

    def __init__(self) -> None:
        core = tokenizers.Tokenizer(models.BPE(vocab=dict(BYTE_OF_CHARACTER), merges=[]))
        core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        core.decoder = decoders.ByteLevel()
        core.add_special_tokens([AddedToken(token, normalized=False) for token in _SPECIAL])
        core.add_tokens([AddedToken("<tool>", normalized=False, special=False)])
        core.post_processor = TemplateProcessing(
            single=["<bos>", "$A"], special_tokens=[("<bos>", BOS_ID)]
        )
        super().__init__(
            TokenizerParts(
                core=core,
                special_tokens={"bos_token": "<bos>", "eos_token": "<eos>"},
                chat_templates={"default": _TEMPLATE},
            )
        )
