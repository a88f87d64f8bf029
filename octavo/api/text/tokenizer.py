"""A tokenizer: text to token ids, token ids to bytes to text.

Every token stands for a fixed string of bytes, so decoding a whole answer and decoding it token
by token are the same thing: bytes are joined, then read as UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import tokenizers
from tokenizers.pre_tokenizers import ByteLevel

from octavo.kit.errors import Unsupported


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerParts:
    """What the files of a model say about its text."""

    core: tokenizers.Tokenizer
    special_tokens: dict[str, str] = field(default_factory=dict)
    """``bos_token``, ``eos_token`` and the like, as chat templates use them."""
    chat_templates: dict[str, str] = field(default_factory=dict)
    """Jinja text by name: ``default``, and ``tool_use`` where requests with tools have another."""


class TokenBytes(dict[int, bytes]):
    """Bytes of each token, found at first use. Ids that name no token give no bytes."""

    def __init__(self, spelling: _Spelling, skipped: frozenset[int] = frozenset()) -> None:
        super().__init__(dict.fromkeys(skipped, b""))
        self._spelling = spelling

    def __missing__(self, token_id: int) -> bytes:
        spelled = self._spelling.bytes_of(token_id)
        self[token_id] = spelled
        return spelled

    def join(self, token_ids: Iterable[int]) -> bytes:
        """Bytes of all of them."""
        return b"".join(map(self.__getitem__, token_ids))


class _NoBytes(dict[int, bytes]):
    def __missing__(self, token_id: int) -> bytes:
        return b""


NO_BYTES: Mapping[int, bytes] = _NoBytes()
"""The table of a request that wants no text."""


class Tokenizer:
    """The tokenizer of one model. Thread-safe; ``encode`` releases the interpreter lock."""

    def __init__(self, parts: TokenizerParts) -> None:
        self._core = parts.core
        self._core.no_truncation()
        self._core.no_padding()
        self.special_tokens = parts.special_tokens
        self.chat_templates = parts.chat_templates
        added = self._core.get_added_tokens_decoder()
        self.special_ids = frozenset(i for i, token in added.items() if token.special)
        self.vocab_size = self._core.get_vocab_size(with_added_tokens=True)
        self.largest_id = max(self._core.get_vocab(with_added_tokens=True).values(), default=-1)
        spelling = _Spelling(self._core)
        self._strips_first_space = spelling.strips_first_space
        self.token_bytes = TokenBytes(spelling)
        """Bytes of every token."""
        self.shown_bytes = TokenBytes(spelling, self.special_ids)
        """Bytes of every token, special ones left out."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Return the token ids of ``text``.

        Raises:
            UnicodeEncodeError: ``text`` holds half of a surrogate pair.
        """
        text.encode()  # the library's own error does not say where
        # encode() keeps the interpreter lock while it works, encode_batch_fast() does not
        [encoding] = self._core.encode_batch_fast([text], add_special_tokens=add_special_tokens)
        return encoding.ids

    def decode(self, token_ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of ``token_ids``; bytes that are no character become U+FFFD."""
        table = self.shown_bytes if skip_special_tokens else self.token_bytes
        text = table.join(token_ids).decode("utf-8", "replace")
        return text.removeprefix(" ") if self._strips_first_space else text

    def find_id(self, token: str) -> int | None:
        """The id of the token spelled ``token``."""
        return self._core.token_to_id(token)

    def longest_token_bytes(self) -> int:
        """Bytes of the longest token; characters where the vocabulary does not spell bytes."""
        return max(map(len, self._core.get_vocab(with_added_tokens=True)), default=1)


class _Spelling:
    """How the tokenizer's decoder turns one token into bytes."""

    def __init__(self, core: tokenizers.Tokenizer) -> None:
        self._core = core
        steps = _decoder_steps(core)
        names = [str(step["type"]) for step in steps]
        self._is_byte_level = names == ["ByteLevel"]
        self._added = frozenset(core.get_added_tokens_decoder())
        if not self._is_byte_level and "Metaspace" not in names and "ByteFallback" not in names:
            raise Unsupported(
                f"the tokenizer's decoder is {names or 'absent'}: must be ByteLevel, or have "
                "Metaspace or ByteFallback. Use a model with such a tokenizer."
            )
        self.strips_first_space = any(
            (step["type"] == "Strip" and step.get("start") == 1)
            or (step["type"] == "Metaspace" and step.get("prepend_scheme") != "never")
            for step in steps
        )

    def bytes_of(self, token_id: int) -> bytes:
        token = self._core.id_to_token(token_id) if token_id >= 0 else None
        if token is None:
            return b""
        if self._is_byte_level:
            try:
                return bytes(map(BYTE_OF_CHARACTER.__getitem__, token))
            except KeyError:  # an added token with a character that spells no byte, such as a space
                return token.encode()
        if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
            return bytes([int(token[3:5], 16)])
        return token.replace("▁", " ").encode()


def _decoder_steps(core: tokenizers.Tokenizer) -> list[dict[str, object]]:
    if core.decoder is None:
        return []
    state = json.loads(core.decoder.__getstate__())
    steps: list[dict[str, object]] = state["decoders"] if state["type"] == "Sequence" else [state]
    return steps


def _byte_characters() -> dict[str, int]:
    """The printable character that stands for each byte in byte-level vocabularies.

    Source:
        Radford et al. 2019, section 2.2: printable Latin-1 stands for itself, the other bytes
        take the characters from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in set(printable)]
    return table | {chr(0x100 + place): byte for place, byte in enumerate(others)}


BYTE_OF_CHARACTER = _byte_characters()
assert set(BYTE_OF_CHARACTER) == set(ByteLevel.alphabet())
