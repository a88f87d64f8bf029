"""``POST /v1/chat/completions``."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from msgspec import UNSET

from octavo.api.frontend.outputs import CompletionOutput, RequestOutput
from octavo.api.frontend.prompts import TextPrompt
from octavo.api.http.body import body
from octavo.api.http.errors import json_reply
from octavo.api.http.generation import Admitted, Head, Tally
from octavo.api.http.schema.answers import (
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatDelta,
    ChatLogprobs,
    ChatMessage,
)
from octavo.api.http.schema.logprobs import chat_logprobs, prompt_logprobs
from octavo.api.http.schema.messages import conversation
from octavo.api.http.schema.openai import ChatCompletionRequest
from octavo.api.http.service import ReadyDep, Service, served_name
from octavo.api.http.sse import DONE, EventStream, event, unless_gone
from octavo.kit.errors import RequestRefused

router = APIRouter()
ChatBody = Annotated[ChatCompletionRequest, Depends(body(ChatCompletionRequest))]


@router.post("/v1/chat/completions")
async def create_chat_completion(chat: ChatBody, service: ReadyDep, request: Request) -> Response:
    """Answer a conversation, whole or as a stream."""
    model = served_name(service, chat.model)
    head = Head.of(service, prefix="chatcmpl", model=model)
    admitted = await unless_gone(request.receive, _admit(chat, service, head))
    answer = _Answer(chat, head)
    if chat.stream:
        return EventStream(answer.events(admitted), admitted.aclose)
    [output] = await unless_gone(request.receive, admitted.finals())
    return json_reply(answer.whole(output))


async def _admit(chat: ChatCompletionRequest, service: Service, head: Head) -> Admitted:
    _check_top_logprobs(chat, service.config.frontend.max_logprobs)
    wants_turn = chat.add_generation_prompt
    text = await service.render_chat(
        conversation(chat.messages),
        add_generation_prompt=not chat.continue_final_message if wants_turn is None else wants_turn,
        continue_final_message=chat.continue_final_message,
        template_kwargs=chat.chat_template_kwargs or None,
    )
    prompt = TextPrompt(text=text, add_special_tokens=chat.add_special_tokens, param="messages")
    return await Admitted.of(
        service,
        [prompt],
        chat.to_sampling(),
        head=head,
        priority=chat.priority,
        cache_salt=chat.cache_salt,
    )


def _check_top_logprobs(chat: ChatCompletionRequest, limit: int) -> None:
    """Refuse by OpenAI's name what the frontend would refuse as ``logprobs``."""
    if chat.top_logprobs is not None and chat.top_logprobs > limit:
        raise RequestRefused(
            f"top_logprobs={chat.top_logprobs}: must be an integer from 0 to {limit}.",
            param="top_logprobs",
            code="invalid_value",
        )


@dataclass(frozen=True, slots=True)
class _Answer:
    """Shapes the outputs of one request."""

    chat: ChatCompletionRequest
    head: Head

    def whole(self, output: RequestOutput) -> ChatCompletion:
        tally = Tally()
        tally.count(0, output)
        head, positions = self.head, output.prompt_logprobs
        return ChatCompletion(
            id=head.id,
            created=head.created,
            model=head.model,
            system_fingerprint=head.fingerprint,
            choices=[self._choice(part) for part in output.outputs],
            usage=tally.usage,
            prompt_logprobs=UNSET if positions is None else prompt_logprobs(positions),
        )

    async def events(self, admitted: Admitted) -> AsyncGenerator[bytes]:
        """A role, texts and an end per answer, one usage where it was asked for, the mark."""
        tally, begun = Tally(), set[int]()
        [stream] = admitted.streams
        async for output in stream:
            tally.count(0, output)
            for part in output.outputs:
                if part.index not in begun:
                    begun.add(part.index)
                    yield self._event(part.index, ChatDelta("assistant", ""), tally)
                logprobs = self._logprobs(part)
                if part.text or logprobs:
                    delta = ChatDelta(content=part.text)
                    yield self._event(part.index, delta, tally, logprobs)
                if part.finish_reason is not None:
                    yield self._end(part, tally)
        if self.chat.include_usage:
            yield event(self._chunk([], tally))
        yield DONE

    def _choice(self, part: CompletionOutput) -> ChatChoice:
        return ChatChoice(
            part.index,
            ChatMessage("assistant", part.text),
            self._logprobs(part),
            part.finish_reason,
            part.stop_reason,
        )

    def _logprobs(self, part: CompletionOutput) -> ChatLogprobs | None:
        if not self.chat.logprobs or not part.logprobs:
            return None
        return chat_logprobs(part.logprobs, self.chat.top_logprobs or 0)

    def _event(
        self, index: int, delta: ChatDelta, tally: Tally, logprobs: ChatLogprobs | None = None
    ) -> bytes:
        return self._framed(ChatChunkChoice(index, delta, logprobs), tally)

    def _end(self, part: CompletionOutput, tally: Tally) -> bytes:
        choice = ChatChunkChoice(
            part.index, ChatDelta(), None, part.finish_reason, part.stop_reason
        )
        return self._framed(choice, tally)

    def _framed(self, choice: ChatChunkChoice, tally: Tally) -> bytes:
        chunk = self._chunk([choice], tally if self.chat.continuous_usage else None)
        return event(chunk)

    def _chunk(self, choices: list[ChatChunkChoice], tally: Tally | None) -> ChatChunk:
        head = self.head
        usage = tally.usage if tally else None
        return ChatChunk(
            head.id,
            head.created,
            head.model,
            head.fingerprint,
            choices,
            usage=usage if self.chat.include_usage else UNSET,
        )
