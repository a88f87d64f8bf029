"""OpenAI answers and stream events (msgspec: encoded once, no validation on the way out)."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType


class PromptTokensDetails(msgspec.Struct, gc=False):
    """Where prompt tokens came from."""

    cached_tokens: int = 0


class Usage(msgspec.Struct):
    """Tokens that a request took, over all prompts and all answers."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


class TopLogprob(msgspec.Struct, gc=False):
    """One of the most likely tokens of a position."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(msgspec.Struct):
    """The token of a position, and the most likely ones."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


class ChatLogprobs(msgspec.Struct):
    """Log-probabilities of a chat answer, token by token."""

    content: list[TokenLogprob]
    refusal: None = None


class CompletionLogprobs(msgspec.Struct):
    """Log-probabilities of a plain completion, column by column."""

    text_offset: list[int]
    token_logprobs: list[float | None]
    tokens: list[str]
    top_logprobs: list[dict[str, float] | None]


class PromptLogprob(msgspec.Struct, gc=False):
    """One candidate at a position of the prompt (vLLM's field)."""

    logprob: float
    rank: int
    decoded_token: str


PromptLogprobs = list[dict[str, PromptLogprob] | None]


class ChatMessage(msgspec.Struct):
    """The answer's text."""

    role: str
    content: str
    refusal: None = None


class ChatChoice(msgspec.Struct):
    """One answer."""

    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: str | None
    stop_reason: int | str | None = None


class ChatCompletion(msgspec.Struct):
    """Answer of ``POST /v1/chat/completions``."""

    id: str
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: Usage
    object: str = "chat.completion"
    prompt_logprobs: PromptLogprobs | UnsetType = UNSET


class ChatDelta(msgspec.Struct, omit_defaults=True, gc=False):
    """What is new in a streamed message."""

    role: str | UnsetType = UNSET
    content: str | UnsetType = UNSET


class ChatChunkChoice(msgspec.Struct):
    """What is new in one answer."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: int | str | UnsetType | None = UNSET


class ChatChunk(msgspec.Struct):
    """One event of a streamed chat."""

    id: str
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChunkChoice]
    object: str = "chat.completion.chunk"
    usage: Usage | UnsetType | None = UNSET


class CompletionChoice(msgspec.Struct):
    """One answer, or what is new in it."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: int | str | UnsetType | None = UNSET
    prompt_logprobs: PromptLogprobs | UnsetType = UNSET


class Completion(msgspec.Struct):
    """Answer of ``POST /v1/completions``, and one event of its stream."""

    id: str
    created: int
    model: str
    system_fingerprint: str
    choices: list[CompletionChoice]
    object: str = "text_completion"
    usage: Usage | UnsetType | None = UNSET


class ModelCard(msgspec.Struct):
    """A served model."""

    id: str
    created: int
    max_model_len: int
    root: str
    parent: None = None
    object: str = "model"
    owned_by: str = "octavo"


class ModelList(msgspec.Struct):
    """Answer of ``GET /v1/models``."""

    data: list[ModelCard]
    object: str = "list"


class Tokenized(msgspec.Struct):
    """Answer of ``POST /tokenize``."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class Detokenized(msgspec.Struct):
    """Answer of ``POST /detokenize``."""

    prompt: str


class Health(msgspec.Struct):
    """Answer of ``GET /health`` and ``GET /ready``."""

    status: str
    reason: str | None = None


class Version(msgspec.Struct):
    """Answer of ``GET /version``."""

    version: str


class Done(msgspec.Struct):
    """Answer of a control route."""

    success: bool
