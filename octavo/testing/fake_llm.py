"""A served model without a model: one token per character, answers that are given."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from octavo.api.frontend.outputs import CompletionOutput, Logprob, RequestOutput
from octavo.api.frontend.params import OutputKind, SamplingParams
from octavo.api.frontend.prompts import Prompt, TextPrompt, TokensPrompt, normalize_prompt
from octavo.config.octavo import OctavoConfig
from octavo.contracts.output import EngineReady
from octavo.kit.errors import RequestRefused

VOCAB_SIZE = 0x110000
"""A token id is a code point."""


@dataclass(slots=True)
class FakeMetrics:
    """A page of one counter."""

    def render(self) -> bytes:
        return b"# TYPE octavo:fake counter\noctavo:fake 1.0\n"


@dataclass(slots=True)
class FakeLLM:
    """Gives ``answer`` to every prompt, a character per step."""

    config: OctavoConfig
    answer: str = "The capital of Japan is Tokyo."
    step_s: float = 0.0
    """Pause before each token. [s]"""
    refusal: Exception | None = None
    """Raised by ``add``."""
    failure: Exception | None = None
    """Raised by a stream after ``fails_after`` tokens."""
    fails_after: int = 3
    is_ready: bool = True
    is_alive: bool = True
    dead_reason: str | None = None
    metrics: FakeMetrics = field(default_factory=FakeMetrics)
    refused_prompt: str | None = None
    """Text that ``add`` refuses."""
    given: list[Prompt] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    params: list[SamplingParams] = field(default_factory=list)
    live: set[str] = field(default_factory=set)
    most_live: int = 0
    aborted: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    num_generated: int = 0

    @property
    def ready(self) -> EngineReady | None:
        if not self.is_ready:
            return None
        limit = self.config.model.max_model_len
        return EngineReady(0, 0, limit, 1, 16, "0", phases=[("load", 0.1)])

    async def add(
        self,
        prompt: Prompt,
        params: SamplingParams,
        *,
        request_id: str,
        priority: int = 0,  # noqa: ARG002  the fake has no queue
        cache_salt: str = "",  # noqa: ARG002  the fake has no cache
    ) -> FakeStream:
        if self.refusal is not None:
            raise self.refusal
        text = _text(prompt)
        if text == self.refused_prompt:
            raise RequestRefused(f"prompt={text!r}: is refused.", param="prompt")
        self.given.append(prompt)
        self.prompts.append(text)
        self.params.append(params)
        self.live.add(request_id)
        self.most_live = max(self.most_live, len(self.live))
        return FakeStream(self, request_id, text, params)

    async def abort(self, request_id: str) -> None:
        if request_id in self.live:
            self.live.discard(request_id)
            self.aborted.append(request_id)

    async def utility(
        self, method: str, args: Sequence[int | str | bool] = ()
    ) -> int | str | bool | None:
        self.calls.append(f"{method}{tuple(args)}")
        return 0

    async def render_chat(
        self,
        messages: list[dict[str, object]],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        template_kwargs: dict[str, object] | None = None,
    ) -> str:
        lines = [f"<{message['role']}>{message['content']}" for message in messages]
        lines += ["<assistant>"] if add_generation_prompt and not continue_final_message else []
        lines += [f"{template_kwargs}"] if template_kwargs else []
        return "\n".join(lines)

    async def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return [*([1] if add_special_tokens else []), *map(ord, text)]

    async def decode(self, token_ids: Sequence[int]) -> str:
        if token_ids and max(token_ids) >= VOCAB_SIZE:
            raise RequestRefused(f"tokens: must be less than {VOCAB_SIZE}.", param="tokens")
        return "".join(map(chr, token_ids))

    async def close(self) -> None:
        self.is_alive = False


@dataclass(slots=True)
class FakeStream:
    """Outputs of one prompt; each of ``n`` answers takes its turn in every step."""

    llm: FakeLLM
    request_id: str
    prompt: str
    params: SamplingParams

    def __aiter__(self) -> AsyncIterator[RequestOutput]:
        return self._deltas()

    async def final(self) -> RequestOutput:
        whole = self._output([CompletionOutput(i, "", []) for i in range(self.params.n)])
        try:
            async for delta in self._deltas():
                for part in delta.outputs:
                    _append(whole.outputs[part.index], part)
        finally:
            await self.aclose()
        whole.finished = True
        return whole

    async def aclose(self) -> None:
        await self.llm.abort(self.request_id)

    async def _deltas(self) -> AsyncIterator[RequestOutput]:
        limit = self.params.max_tokens or len(self.llm.answer)
        text = self.llm.answer[:limit]
        reason = "length" if len(text) < len(self.llm.answer) else "stop"
        for step, character in enumerate(text):
            await asyncio.sleep(self.llm.step_s)
            if self.llm.failure is not None and step == self.llm.fails_after:
                self.llm.live.discard(self.request_id)
                raise self.llm.failure
            self.llm.num_generated += 1
            is_last = step == len(text) - 1
            if is_last:
                self.llm.live.discard(self.request_id)
            parts = [
                self._part(index, character, reason if is_last else None)
                for index in range(self.params.n)
            ]
            yield self._output(parts)

    def _part(self, index: int, character: str, reason: str | None) -> CompletionOutput:
        num = self.params.logprobs
        logprobs = None if num is None else [fake_position(character, num)]
        return CompletionOutput(index, character, [ord(character)], logprobs, None, reason)

    def _output(self, parts: list[CompletionOutput]) -> RequestOutput:
        num = self.params.prompt_logprobs
        positions: list[dict[int, Logprob] | None] | None = None
        if num is not None:
            positions = [None, *(fake_position(character, num) for character in self.prompt[1:])]
        token_ids = [ord(character) for character in self.prompt]
        assert self.params.output_kind in OutputKind
        return RequestOutput(
            self.request_id,
            self.prompt,
            token_ids,
            parts,
            num_cached_tokens=2,
            prompt_logprobs=positions,
        )


def _append(answer: CompletionOutput, part: CompletionOutput) -> None:
    answer.text += part.text
    answer.token_ids += part.token_ids
    answer.finish_reason = part.finish_reason
    if part.logprobs is not None:
        answer.logprobs = [*(answer.logprobs or []), *part.logprobs]


def fake_position(character: str, num_top: int) -> dict[int, Logprob]:
    """The character as the second most likely, with ``num_top`` alternatives beside it."""
    position = {ord(character): _logprob(character, rank=2)}
    for rank in range(1, num_top + 1):
        if rank != 2:
            position[rank] = _logprob(chr(0x2460 + rank), rank=rank)
    return position


def _logprob(character: str, *, rank: int) -> Logprob:
    return Logprob(math.log(0.5**rank), rank, character, character.encode())


def _text(prompt: Prompt) -> str:
    match normalize_prompt(prompt):
        case TextPrompt(text=text):
            return text
        case TokensPrompt(token_ids=token_ids):
            return "".join(map(chr, token_ids))
