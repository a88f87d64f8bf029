"""``POST /v1/completions``."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from msgspec import UNSET

from octavo.api.frontend.outputs import CompletionOutput, RequestOutput
from octavo.api.frontend.prompts import Prompt, TextPrompt, TokensPrompt
from octavo.api.http.body import body
from octavo.api.http.errors import json_reply
from octavo.api.http.generation import Admitted, Head, Tally
from octavo.api.http.schema.answers import Completion, CompletionChoice, Usage
from octavo.api.http.schema.logprobs import CompletionColumns, Position, prompt_logprobs
from octavo.api.http.schema.openai import CompletionRequest
from octavo.api.http.service import ReadyDep, Service, served_name
from octavo.api.http.sse import DONE, EventStream, event, unless_gone

router = APIRouter()
CompletionBody = Annotated[CompletionRequest, Depends(body(CompletionRequest))]


@router.post("/v1/completions")
async def create_completion(
    completion: CompletionBody, service: ReadyDep, request: Request
) -> Response:
    """Continue one or more prompts, whole or as a stream."""
    model = served_name(service, completion.model)
    head = Head.of(service, prefix="cmpl", model=model)
    admitted = await unless_gone(request.receive, _admit(completion, service, head))
    answer = _Answer(completion, head, service)
    if completion.stream:
        return EventStream(answer.events(admitted), admitted.aclose)
    outputs = await unless_gone(request.receive, admitted.finals())
    return json_reply(await answer.whole(outputs))


async def _admit(completion: CompletionRequest, service: Service, head: Head) -> Admitted:
    many = len(completion.prompt) > 1
    prompts = [
        _prompt(prompt, completion, f"prompt[{index}]" if many else "prompt")
        for index, prompt in enumerate(completion.prompt)
    ]
    return await Admitted.of(
        service,
        prompts,
        completion.to_sampling(),
        head=head,
        priority=completion.priority,
        cache_salt=completion.cache_salt,
    )


def _prompt(prompt: str | list[int], completion: CompletionRequest, param: str) -> Prompt:
    if isinstance(prompt, str):
        special = completion.add_special_tokens
        return TextPrompt(text=prompt, add_special_tokens=special, param=param)
    return TokensPrompt(token_ids=prompt, param=param)


@dataclass(frozen=True, slots=True)
class _Answer:
    """Shapes the outputs of one request. Answers of prompt ``i`` start at index ``i * n``."""

    completion: CompletionRequest
    head: Head
    service: Service
    tally: Tally = field(default_factory=Tally)
    columns: dict[int, CompletionColumns] = field(default_factory=dict)
    """By answer; an answer that has some has begun."""
    prompt_positions: dict[int, list[Position | None]] = field(default_factory=dict)
    """By prompt."""

    async def whole(self, outputs: list[RequestOutput]) -> Completion:
        choices = list[CompletionChoice]()
        for index, output in enumerate(outputs):
            self._note(index, output)
            for part in output.outputs:
                choice = await self._choice(index, part, output)
                choice.finish_reason, choice.stop_reason = part.finish_reason, part.stop_reason
                if self.completion.prompt_logprobs is not None:
                    choice.prompt_logprobs = prompt_logprobs(self.prompt_positions.get(index, []))
                choices.append(choice)
        return self._completion(choices, self.tally.usage)

    async def events(self, admitted: Admitted) -> AsyncGenerator[bytes]:
        """Texts and an end per answer, one usage where it was asked for, the mark."""
        async with aclosing(admitted.outputs()) as outputs:
            async for index, output in outputs:
                self._note(index, output)
                for part in output.outputs:
                    choice = await self._choice(index, part, output)
                    if choice.text or choice.logprobs:
                        yield self._event(choice)
                    if part.finish_reason is not None:
                        yield self._event(_end(choice.index, part))
        if self.completion.include_usage:
            yield event(self._completion([], self.tally.usage))
        yield DONE

    def _note(self, index: int, output: RequestOutput) -> None:
        self.tally.count(index, output)
        if output.prompt_logprobs is not None:
            self.prompt_positions[index] = output.prompt_logprobs

    async def _choice(
        self, index: int, part: CompletionOutput, output: RequestOutput
    ) -> CompletionChoice:
        place = index * self.completion.n + part.index
        echoes = self.completion.echo and place not in self.columns
        columns = self.columns.setdefault(place, CompletionColumns(self.completion.logprobs or 0))
        choice = CompletionChoice(place, part.text)
        positions: list[Position | str] = []
        if echoes:
            choice.text = await self._prompt_text(output) + part.text
            positions += await self._prompt_columns(index, output)
        positions += part.logprobs or []
        if self.completion.logprobs is not None and positions:
            choice.logprobs = columns.take(positions)
        return choice

    async def _prompt_text(self, output: RequestOutput) -> str:
        if output.prompt is not None:
            return output.prompt
        return await self.service.decode(output.prompt_token_ids)

    async def _prompt_columns(self, index: int, output: RequestOutput) -> list[Position | str]:
        """The prompt's positions; the first token has no log-probability, so only a text."""
        if self.completion.logprobs is None:
            return []
        first = await self.service.decode(output.prompt_token_ids[:1])
        rest = self.prompt_positions.get(index, [])[1:]
        return [first, *(position for position in rest if position is not None)]

    def _event(self, choice: CompletionChoice) -> bytes:
        usage = self.tally.usage if self.completion.continuous_usage else None
        return event(self._completion([choice], usage))

    def _completion(self, choices: list[CompletionChoice], usage: Usage | None) -> Completion:
        head = self.head
        shown = self.completion.include_usage or not self.completion.stream
        return Completion(
            head.id,
            head.created,
            head.model,
            head.fingerprint,
            choices,
            usage=usage if shown else UNSET,
        )


def _end(index: int, part: CompletionOutput) -> CompletionChoice:
    return CompletionChoice(index, "", None, part.finish_reason, part.stop_reason)
