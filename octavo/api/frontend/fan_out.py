"""One call of a user: n answers, each an engine request of its own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from octavo.api.frontend.admission import Ticket
from octavo.api.frontend.answer import Answer
from octavo.api.frontend.input_processor import PreparedRequest
from octavo.api.frontend.logprobs import LogprobReader
from octavo.api.frontend.outputs import Logprob, RequestOutput
from octavo.api.frontend.params import OutputKind, SamplingParams
from octavo.contracts.output import EngineOutput, TokenLogprobs
from octavo.contracts.request import EngineRequest
from octavo.kit.errors import OctavoError

_PromptLogprobs = list[dict[int, Logprob] | None]


@dataclass(slots=True)
class LiveRequest:
    """What the frontend knows about one call until its stream has ended."""

    request_id: str
    params: SamplingParams
    prepared: PreparedRequest
    ticket: Ticket
    arrival_time: float
    answers: list[Answer]
    prompt_logprobs: LogprobReader | None
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when ``take`` has something, or the request has ended."""
    error: OctavoError | None = None
    """Why it ended early; the stream raises it after what came before."""
    num_cached_tokens: int = 0
    scheduled_time: float = 0.0
    """First time a step ran one of its answers; 0 before. [s]"""
    _prompt_rows: list[TokenLogprobs] = field(default_factory=list)
    _is_prompt_shown: bool = False

    @property
    def is_finished(self) -> bool:
        """Every answer has its reason."""
        return all(answer.finish_reason is not None for answer in self.answers)

    def engine_requests(self, *, priority: int, cache_salt: str) -> list[EngineRequest]:
        """What the engine is to run."""
        return [
            EngineRequest(
                request_id=answer.engine_id,
                prompt_token_ids=self.prepared.prompt_token_ids,
                sampling=self.prepared.for_answer(answer.index),
                arrival_time=self.arrival_time,
                priority=priority,
                cache_salt=cache_salt,
            )
            for answer in self.answers
        ]

    def apply(self, answer: Answer, output: EngineOutput) -> None:
        """Take in what one step brought for one of the answers."""
        if output.num_cached_tokens > 0:
            self.num_cached_tokens = max(self.num_cached_tokens, output.num_cached_tokens)
        if output.scheduled_time and not self.scheduled_time:
            self.scheduled_time = output.scheduled_time
        if output.prompt_logprobs is not None and answer.index == 0:
            self._prompt_rows.append(output.prompt_logprobs)
        answer.apply(output)
        if self.is_finished or (self.params.output_kind is OutputKind.DELTA and answer.is_changed):
            self.news.set()

    def fail(self, error: OctavoError) -> None:
        """End every open answer with ``error``."""
        self.error = self.error or error
        for answer in self.answers:
            if answer.finish_reason is None:
                answer.fail()
        self.news.set()

    def abort(self) -> None:
        """End every open answer; what came so far stays."""
        for answer in self.answers:
            if answer.finish_reason is None:
                answer.end("abort")
        self.news.set()

    def take(self) -> RequestOutput | None:
        """Return what is new, or None; with ``OutputKind.FINAL`` nothing is before the end."""
        is_finished = self.is_finished
        is_whole = is_finished and self.error is None
        if self.params.output_kind is OutputKind.FINAL and not is_whole:
            return None
        changed = [answer.take() for answer in self.answers if answer.is_changed]
        if not changed:
            return None
        return RequestOutput(
            request_id=self.request_id,
            prompt=self.prepared.prompt,
            prompt_token_ids=self.prepared.prompt_token_ids,
            outputs=changed,
            finished=is_whole,
            num_cached_tokens=self.num_cached_tokens,
            prompt_logprobs=self._take_prompt_logprobs(),
        )

    def _take_prompt_logprobs(self) -> _PromptLogprobs | None:
        """Complete once the first answer has a token; a prompt of one token has no row."""
        first = self.answers[0]
        if self.prompt_logprobs is None or self._is_prompt_shown or not first.num_tokens:
            return None
        self._is_prompt_shown = True
        positions: _PromptLogprobs = [None]
        for rows in self._prompt_rows:
            positions += self.prompt_logprobs.read(rows)
        self._prompt_rows = []
        return positions
