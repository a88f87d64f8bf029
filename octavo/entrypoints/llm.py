"""``LLM``: offline generation and chat, in this process."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from types import TracebackType
from typing import Any, Self, TypeGuard

from octavo.api.frontend.outputs import RequestOutput
from octavo.api.frontend.params import SamplingParams
from octavo.api.frontend.prompts import Prompt, TextPrompt, TokensPrompt
from octavo.api.http.schema.messages import read_conversation
from octavo.config.args import EngineArgs
from octavo.config.octavo import OctavoConfig
from octavo.config.values import from_keyword
from octavo.entrypoints.offline import Batch, Job, Progress, given
from octavo.kit.env import read_environment
from octavo.kit.errors import ConfigError, RequestRefused
from octavo.launch.inprocess import open_llm
from octavo.resolve.load import load_config

PromptLike = Prompt | Mapping[str, object]
"""A prompt, or ``{"prompt": text}``, or ``{"prompt_token_ids": ids}``."""
Message = Mapping[str, object]
"""``{"role": ..., "content": ...}``."""


class LLM:
    """A model, loaded into this process.

    Works in scripts and in notebooks: the event loop and the engine have threads of their own.
    Close it, or use it as a context manager, to give its memory back.
    """

    def __init__(self, model: str | None = None, **options: object) -> None:
        """Load ``model``; ``options`` are fields of ``EngineArgs``.

        Values may also be texts, read as those of flags: ``kv_cache_memory_bytes="2G"``.

        Raises:
            OperatorError: the model or an option cannot work; the message says what to change.
        """
        self.config: OctavoConfig = load_config(engine_args(model, options), read_environment())
        self._process = open_llm(self.config)
        self._close = weakref.finalize(self, self._process.close)

    def generate(
        self,
        prompts: PromptLike | Sequence[PromptLike],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Continue every prompt; results are in the order of ``prompts``.

        Raises:
            RequestRefused: a prompt or parameter is out of bounds; nothing runs any more.
            Closed: after ``close``.
        """
        self._process.require_open()
        many = prompt_list(prompts)
        jobs = [
            Job(given(prompt), each)
            for prompt, each in zip(many, _params(params, len(many)), strict=True)
        ]
        return self._run(jobs, use_tqdm=use_tqdm)

    def chat(  # noqa: PLR0913  the arguments of vLLM's
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        chat_template: str | None = None,
        chat_template_kwargs: dict[str, object] | None = None,
    ) -> list[RequestOutput]:
        """Answer one conversation, or each of several; results are in their order.

        Raises:
            RequestRefused: as ``generate``, or the template refuses the messages.
        """
        self._process.require_open()
        llm = self._process.llm

        async def prompt(place: str, turns: object) -> Prompt:
            text = await llm.render_chat(
                read_conversation(turns, at=place),
                add_generation_prompt=add_generation_prompt and not continue_final_message,
                continue_final_message=continue_final_message,
                chat_template=chat_template,
                template_kwargs=chat_template_kwargs,
            )
            return TextPrompt(text=text, add_special_tokens=False, param=place)

        many = [messages] if not messages or isinstance(messages[0], Mapping) else list(messages)
        places = ["messages"] if len(many) == 1 else [f"messages[{i}]" for i in range(len(many))]
        jobs = [
            Job(prompt(place, list(turns)), each)
            for place, turns, each in zip(places, many, _params(params, len(many)), strict=True)
        ]
        return self._run(jobs, use_tqdm=use_tqdm)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of ``text``."""
        llm = self._process.llm
        return self._process.run(llm.encode(text, add_special_tokens=add_special_tokens))

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of ``token_ids``, special tokens included."""
        return self._process.run(self._process.llm.decode(token_ids))

    def reset_prefix_cache(self) -> bool:
        """Forget cached prefixes, so that no later call finds one; True when that is done."""
        self._process.run(self._process.llm.utility("reset_prefix_cache"))
        return True

    def close(self) -> None:
        """Stop the engine and free the model; idempotent."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, jobs: list[Job], *, use_tqdm: bool) -> list[RequestOutput]:
        with Progress(len(jobs), is_shown=use_tqdm) as progress:
            return self._process.run(Batch(self._process.llm, jobs, progress).run())


def engine_args(model: str | None, options: Mapping[str, object]) -> EngineArgs:
    """Arguments from keywords.

    Raises:
        ConfigError: there is no such option, or its value is of another type.
    """
    known = [each.name for each in fields(EngineArgs)]
    for name in options:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise ConfigError(
                name,
                options[name],
                want="is not an option of LLM",
                fix=f"Did you mean {near[0]}?" if near else "help(EngineArgs) lists them.",
            )
    said = {"model": model, **options}
    checked: Any = {  # Any: each option has its type
        field.name: from_keyword(field, said[field.name])
        for field in fields(EngineArgs)
        if said.get(field.name) is not None
    }
    return EngineArgs(**checked)


def prompt_list(prompts: PromptLike | Sequence[PromptLike]) -> list[Prompt]:
    """One list, whether one prompt or many are given.

    Raises:
        RequestRefused: names the prompt that is none.
    """
    if _is_prompt(prompts):
        return [_prompt(prompts, "prompt")]
    if not isinstance(prompts, Sequence):
        raise RequestRefused(
            f"prompts is a {type(prompts).__name__}: must be a prompt, or a list of prompts.",
            param="prompts",
        )
    return [_prompt(prompt, f"prompts[{index}]") for index, prompt in enumerate(prompts)]


def _is_prompt(prompts: object) -> TypeGuard[PromptLike]:
    if isinstance(prompts, list):
        return bool(prompts) and isinstance(prompts[0], int)
    return isinstance(prompts, (str, Mapping, TextPrompt, TokensPrompt))


def _prompt(prompt: object, place: str) -> Prompt:
    match prompt:
        case TextPrompt() | TokensPrompt():
            return replace(prompt, param=place)
        case str():
            return TextPrompt(text=prompt, param=place)
        case {"prompt_token_ids": list(token_ids)} | list(token_ids):
            return TokensPrompt(token_ids=token_ids, param=place)
        case {"prompt": str(text)}:
            return TextPrompt(text=text, param=place)
        case _:
            raise RequestRefused(
                f"{place} is {repr(prompt)[:100]}: must be text, a list of token ids, "
                "{'prompt': text} or {'prompt_token_ids': ids}.",
                param=place,
            )


def _params(
    params: SamplingParams | Sequence[SamplingParams] | None, count: int
) -> list[SamplingParams]:
    if params is None or isinstance(params, SamplingParams):
        return [params or SamplingParams()] * count
    if len(params) != count:
        raise RequestRefused(
            f"params has {len(params)} items for {count} prompts: must be one for all, "
            "or one for each.",
            param="params",
        )
    return list(params)
