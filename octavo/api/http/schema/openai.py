"""OpenAI requests: every field bounded, every feature that is not here refused with its reason."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, model_validator

from octavo.api.frontend.bounds import (
    MAX_BAD_WORD_CHARS,
    MAX_BAD_WORDS,
    MAX_LOGIT_BIAS,
    MAX_N,
    MAX_SALT_CHARS,
    MAX_STOP_CHARS,
    MAX_STOP_STRINGS,
    MAX_STOP_TOKENS,
)
from octavo.api.frontend.params import OutputKind, SamplingParams
from octavo.api.http.schema.messages import ChatTurn
from octavo.api.http.schema.prompts import TextOrTokens, checked_prompts
from octavo.kit.errors import RequestRefused

Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
TokenId = Annotated[int, Field(ge=0, le=2**31 - 1)]
Length = Annotated[int, Field(ge=0, le=2**31 - 1)]
Name = Annotated[str, Field(max_length=1024)]
Stop = Annotated[str, Field(max_length=MAX_STOP_CHARS)]
BadWord = Annotated[str, Field(max_length=MAX_BAD_WORD_CHARS)]
Bias = Annotated[float, Field(ge=-100, le=100)]
Flag = bool

_LATER = "is not supported by this version"
_SHARED_REFUSALS = {
    "guided_json": f"structured output {_LATER}",
    "guided_regex": f"structured output {_LATER}",
    "guided_choice": f"structured output {_LATER}",
    "guided_grammar": f"structured output {_LATER}",
    "structured_outputs": f"structured output {_LATER}",
    "response_format": f"only {{'type': 'text'}} is supported; structured output {_LATER}",
    "logits_processors": f"custom logits processors {_LATER.replace('is', 'are', 1)}",
    "use_beam_search": "beam search is not supported; sample with n instead",
    "kv_transfer_params": f"KV transfer {_LATER}",
    "prompt_embeds": f"prompt embeddings {_LATER.replace('is', 'are', 1)}",
    "return_token_ids": f"token ids in answers {_LATER.replace('is', 'are', 1)}",
    "return_tokens_as_token_ids": f"token ids in answers {_LATER.replace('is', 'are', 1)}",
    "vllm_xargs": "extra arguments are not supported",
}
_CHAT_REFUSALS = {
    **_SHARED_REFUSALS,
    "tools": f"calling tools {_LATER}; leave tools out, or set tool_choice to 'none'",
    "tool_choice": f"calling tools {_LATER}; only 'none' and 'auto' without tools are accepted",
    "functions": f"calling functions {_LATER}",
    "function_call": f"calling functions {_LATER}; only 'none' and 'auto' are accepted",
    "audio": "this model answers in text only",
    "modalities": "this model answers in text only: must be ['text']",
    "web_search_options": "web search is not supported",
    "documents": "documents are not supported; put their text into a message",
    "echo": "echo belongs to /v1/completions",
    "chat_template": (
        "a chat template from a request is not accepted; "
        "the operator may set one with --chat-template"
    ),
    "mm_processor_kwargs": "this model takes text only",
}
_COMPLETION_REFUSALS = {
    **_SHARED_REFUSALS,
    "suffix": "this model does not fill in the middle; leave suffix out",
}
_INERT: dict[str, tuple[object, ...]] = {
    "response_format": ({"type": "text"},),
    "tool_choice": ("none", "auto"),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
}
"""Values that ask for nothing; so do null, false, empty text, lists and objects, everywhere."""


class StreamOptions(BaseModel):
    """What a stream carries beside the text."""

    model_config = ConfigDict(strict=True)

    include_usage: Flag | None = None
    continuous_usage_stats: Flag | None = None


class GenerationRequest(BaseModel):
    """Fields that chat and plain completions share. A null field is an absent one."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False, frozen=True)
    refusals: ClassVar[dict[str, str]] = _SHARED_REFUSALS

    model: Name | None = None
    n: Annotated[int, Field(ge=1, le=MAX_N)] = 1
    best_of: Annotated[int, Field(ge=1, le=MAX_N)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    min_tokens: Length = 0
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=2**31 - 1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    logit_bias: Annotated[dict[str, Bias], Field(max_length=MAX_LOGIT_BIAS)] = {}
    bad_words: Annotated[list[BadWord], Field(max_length=MAX_BAD_WORDS)] = []
    allowed_token_ids: Annotated[list[TokenId], Field(max_length=2**20)] | None = None
    stop: Annotated[list[Stop], Field(max_length=MAX_STOP_STRINGS)] = []
    stop_token_ids: Annotated[list[TokenId], Field(max_length=MAX_STOP_TOKENS)] = []
    include_stop_str_in_output: Flag = False
    ignore_eos: Flag = False
    skip_special_tokens: Flag = True
    seed: Annotated[int, Field(ge=-(2**63), le=2**63 - 1)] | None = None
    truncate_prompt_tokens: Annotated[int, Field(ge=-1, le=2**31 - 1)] | None = None
    prompt_logprobs: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    priority: Int32 = 0
    cache_salt: Annotated[str, Field(max_length=MAX_SALT_CHARS)] = ""
    stream: Flag = False
    stream_options: StreamOptions = StreamOptions()
    user: Annotated[str, Field(max_length=4096)] = ""

    @model_validator(mode="before")
    @classmethod
    def _present(cls, data: dict[str, object]) -> dict[str, object]:
        """Drop nulls, refuse what is not supported, give ``stop`` one shape."""
        present = {name: value for name, value in data.items() if value is not None}
        for name in cls.refusals.keys() & present.keys():
            if _asks_for_something(name, present):
                raise RequestRefused(
                    f"{name}: {cls.refusals[name]}.", param=name, code="unsupported_parameter"
                )
        if isinstance(present.get("stop"), str):
            present["stop"] = [present["stop"]]
        return present

    @model_validator(mode="after")
    def _consistent(self) -> GenerationRequest:
        if self.best_of is not None and self.best_of != self.n:
            raise RequestRefused(
                f"best_of={self.best_of}: must equal n ({self.n}); all answers are returned. "
                "Leave best_of out.",
                param="best_of",
                code="invalid_value",
            )
        if "stream_options" in self.model_fields_set and not self.stream:
            raise RequestRefused(
                "stream_options: is accepted with stream=true only. Leave it out or stream.",
                param="stream_options",
                code="invalid_value",
            )
        if self.stream and self.prompt_logprobs is not None:
            raise RequestRefused(
                f"prompt_logprobs={self.prompt_logprobs}: is not available in a stream. "
                "Set stream to false.",
                param="prompt_logprobs",
                code="invalid_value",
            )
        return self

    @property
    def include_usage(self) -> bool:
        """The stream ends with one event of usage."""
        return bool(self.stream_options.include_usage)

    @property
    def continuous_usage(self) -> bool:
        """Each event carries the usage so far."""
        return self.include_usage and bool(self.stream_options.continuous_usage_stats)

    def sampling(
        self, *, max_tokens: int | None, logprobs: int | None, prompt_logprobs: int | None
    ) -> SamplingParams:
        """The parameters of this request, as the frontend takes them."""
        return SamplingParams(
            n=self.n,
            max_tokens=max_tokens,
            min_tokens=self.min_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            logit_bias=_by_token_id(self.logit_bias),
            bad_words=tuple(self.bad_words),
            allowed_token_ids=_some(self.allowed_token_ids),
            stop=tuple(self.stop),
            stop_token_ids=tuple(self.stop_token_ids),
            include_stop_str_in_output=self.include_stop_str_in_output,
            ignore_eos=self.ignore_eos,
            seed=self.seed,
            logprobs=logprobs,
            prompt_logprobs=prompt_logprobs,
            skip_special_tokens=self.skip_special_tokens,
            truncate_prompt_tokens=self.truncate_prompt_tokens,
            output_kind=OutputKind.DELTA if self.stream else OutputKind.FINAL,
        )


class ChatCompletionRequest(GenerationRequest):
    """Body of ``POST /v1/chat/completions``."""

    refusals: ClassVar[dict[str, str]] = _CHAT_REFUSALS

    messages: Annotated[list[ChatTurn], Field(min_length=1, max_length=2**16)]
    max_completion_tokens: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    logprobs: Flag = False
    top_logprobs: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    add_generation_prompt: Flag | None = None
    continue_final_message: Flag = False
    add_special_tokens: Flag = False
    chat_template_kwargs: dict[str, object] = {}

    @model_validator(mode="after")
    def _consistent_chat(self) -> ChatCompletionRequest:
        if self.top_logprobs and not self.logprobs:
            raise RequestRefused(
                f"top_logprobs={self.top_logprobs}: needs logprobs=true. Set logprobs.",
                param="top_logprobs",
                code="invalid_value",
            )
        check_continuation(
            self.messages,
            continue_final_message=self.continue_final_message,
            add_generation_prompt=self.add_generation_prompt,
        )
        return self

    def to_sampling(self) -> SamplingParams:
        """Parameters; without a limit the answer may fill the context."""
        limit = self.max_completion_tokens
        return self.sampling(
            max_tokens=self.max_tokens if limit is None else limit,
            logprobs=(self.top_logprobs or 0) if self.logprobs else None,
            prompt_logprobs=self.prompt_logprobs,
        )


class CompletionRequest(GenerationRequest):
    """Body of ``POST /v1/completions``."""

    refusals: ClassVar[dict[str, str]] = _COMPLETION_REFUSALS

    prompt: Annotated[
        list[str | list[int]],
        PlainValidator(checked_prompts, json_schema_input_type=TextOrTokens),
    ]
    echo: Flag = False
    logprobs: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    add_special_tokens: Flag = True

    def to_sampling(self) -> SamplingParams:
        """Parameters; OpenAI's limit of 16 tokens where none is given."""
        echoed = self.logprobs if self.echo else None
        asked = self.prompt_logprobs
        return self.sampling(
            max_tokens=16 if self.max_tokens is None else self.max_tokens,
            logprobs=self.logprobs,
            prompt_logprobs=echoed if asked is None else max(asked, echoed or 0),
        )


class TokenizeRequest(BaseModel):
    """Body of ``POST /tokenize``: a prompt, or messages."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    model: Name | None = None
    prompt: str | None = None
    messages: Annotated[list[ChatTurn], Field(min_length=1, max_length=2**16)] | None = None
    add_special_tokens: Flag | None = None
    return_token_strs: Flag | None = None
    add_generation_prompt: Flag | None = None
    continue_final_message: Flag | None = None
    chat_template_kwargs: dict[str, object] | None = None
    chat_template: str | None = None
    tools: list[object] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> TokenizeRequest:
        if (self.prompt is None) == (self.messages is None):
            raise RequestRefused(
                "the body must have either prompt or messages.",
                param="prompt",
                code="invalid_value",
            )
        for name, value in (("chat_template", self.chat_template), ("tools", self.tools)):
            if value:
                raise RequestRefused(
                    f"{name}: {_CHAT_REFUSALS[name]}.", param=name, code="unsupported_parameter"
                )
        if self.messages is not None:
            check_continuation(
                self.messages,
                continue_final_message=bool(self.continue_final_message),
                add_generation_prompt=self.add_generation_prompt,
            )
        return self


class DetokenizeRequest(BaseModel):
    """Body of ``POST /detokenize``."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    model: Name | None = None
    tokens: Annotated[list[TokenId], Field(max_length=2**22)]


def check_continuation(
    messages: list[ChatTurn], *, continue_final_message: bool, add_generation_prompt: bool | None
) -> None:
    """Refuse a continuation that cannot be one."""
    if not continue_final_message:
        return
    if add_generation_prompt:
        raise RequestRefused(
            "continue_final_message=true: excludes add_generation_prompt=true. Set one of them.",
            param="continue_final_message",
            code="invalid_value",
        )
    if messages[-1].role != "assistant":
        raise RequestRefused(
            f"continue_final_message=true: the last message has role {messages[-1].role!r}, "
            "must be 'assistant'. End messages with the text to continue.",
            param="messages",
            code="invalid_value",
        )


def _asks_for_something(name: str, present: dict[str, object]) -> bool:
    value = present[name]
    if not value or value in _INERT.get(name, ()):
        return False
    return not (name == "tools" and present.get("tool_choice") == "none")


def _by_token_id(bias: dict[str, float]) -> dict[int, float] | None:
    for key in bias:
        if not (key.isascii() and key.isdecimal() and len(key) < 11):
            raise RequestRefused(
                f"logit_bias has the key {key[:100]!r}: must be a token id, such as '42'.",
                param="logit_bias",
                code="invalid_value",
            )
    return {int(key): float(value) for key, value in bias.items()} or None


def _some(token_ids: list[int] | None) -> tuple[int, ...] | None:
    return None if token_ids is None else tuple(token_ids)
