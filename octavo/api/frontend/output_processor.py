"""Engine outputs to the requests they belong to."""

from __future__ import annotations

import itertools
import logging
import time

from octavo.api.frontend.admission import Ticket
from octavo.api.frontend.answer import Answer
from octavo.api.frontend.detokenizer import Detokenizer, StopText
from octavo.api.frontend.fan_out import LiveRequest
from octavo.api.frontend.input_processor import PreparedRequest
from octavo.api.frontend.logprobs import LogprobReader
from octavo.api.frontend.metrics import Metrics
from octavo.api.frontend.params import SamplingParams
from octavo.api.text.tokenizer import NO_BYTES, Tokenizer
from octavo.contracts.output import EngineOutput, EngineOutputs, FinishReason, RequestError
from octavo.kit.errors import OctavoError, RequestFailed, RequestRefused

_log = logging.getLogger(__name__)


class OutputProcessor:
    """Owns every live request. The work of a step is in proportion to its new tokens.

    Invariant between calls: ``_answers`` holds exactly the answers without a finish reason, and
    ``_live`` the calls that have such an answer.
    """

    def __init__(self, tokenizer: Tokenizer, metrics: Metrics) -> None:
        self._tokenizer = tokenizer
        self._metrics = metrics
        self._answers: dict[str, tuple[LiveRequest, Answer]] = {}
        self._live: dict[str, list[LiveRequest]] = {}
        self._serial = itertools.count()

    @property
    def num_live(self) -> int:
        """Answers that are not finished."""
        return len(self._answers)

    def open(
        self,
        request_id: str,
        params: SamplingParams,
        prepared: PreparedRequest,
        ticket: Ticket,
        arrival_time: float,
    ) -> LiveRequest:
        """Register a call; its engine requests get ids that no other call has."""
        serial = next(self._serial)
        live = LiveRequest(
            request_id=request_id,
            params=params,
            prepared=prepared,
            ticket=ticket,
            arrival_time=arrival_time,
            answers=[
                self._answer(index, f"{request_id}#{serial}.{index}", params)
                for index in range(params.n)
            ],
            prompt_logprobs=self._reader(params.prompt_logprobs),
        )
        for answer in live.answers:
            self._answers[answer.engine_id] = (live, answer)
        self._live.setdefault(request_id, []).append(live)
        return live

    def find(self, request_id: str) -> list[LiveRequest]:
        """Unfinished calls of that id; callers choose ids, so there may be several."""
        return list(self._live.get(request_id, ()))

    def deliver(self, outputs: EngineOutputs) -> list[str]:
        """Hand a step's outputs to their requests; return engine ids that need not run on."""
        to_abort: list[str] = []
        now = outputs.timestamp or time.monotonic()
        for output in outputs.outputs:
            found = self._answers.get(output.request_id)
            if found is None:
                continue  # aborted here while the step ran
            live, answer = found
            if output.finish_reason is FinishReason.ERROR:
                to_abort += self.fail(live, _error_of(output.error))
                continue
            try:
                self._apply(live, answer, output, now)
            except Exception as error:  # noqa: BLE001 - guard of one request
                _log.exception("request %s broke while its output was read", live.request_id)
                to_abort += self.fail(
                    live, RequestFailed(f"its output could not be read: {error!r}")
                )
                continue
            if answer.finish_reason is not None:
                self._close_answer(live, answer, now)
                if live.is_finished:
                    self._close(live)
                if output.finish_reason is None:
                    to_abort.append(answer.engine_id)
        return to_abort

    def abort(self, live: LiveRequest) -> list[str]:
        """End a call; return the engine ids that still run."""
        return self._end(live, None)

    def fail(self, live: LiveRequest, error: OctavoError) -> list[str]:
        """End a call with an error; return the engine ids that still run."""
        return self._end(live, error)

    def fail_all(self, error: OctavoError) -> None:
        """End everything: there is no engine any more."""
        for live in {id(live): live for live, _ in self._answers.values()}.values():
            self.fail(live, error)

    def _apply(self, live: LiveRequest, answer: Answer, output: EngineOutput, now: float) -> None:
        num_before = answer.num_tokens
        live.apply(answer, output)
        num_new = answer.num_tokens - num_before
        if num_new:
            self._metrics.tokens(live, answer, num_new, now)
            answer.last_token_time = now

    def _end(self, live: LiveRequest, error: OctavoError | None) -> list[str]:
        still_open = [answer for answer in live.answers if answer.engine_id in self._answers]
        if error is None:
            live.abort()
        else:
            live.fail(error)
        now = time.monotonic()
        for answer in still_open:
            self._close_answer(live, answer, now)
        if still_open:
            self._close(live)
        return [answer.engine_id for answer in still_open]

    def _close_answer(self, live: LiveRequest, answer: Answer, now: float) -> None:
        del self._answers[answer.engine_id]
        self._metrics.finished(live, answer, now)

    def _close(self, live: LiveRequest) -> None:
        """Forget a call whose last answer has just been closed."""
        live.ticket.close()
        others = self._live[live.request_id]
        others.remove(live)
        if not others:
            del self._live[live.request_id]

    def _answer(self, index: int, engine_id: str, params: SamplingParams) -> Answer:
        table = (
            self._tokenizer.shown_bytes
            if params.skip_special_tokens
            else self._tokenizer.token_bytes
        )
        stop = StopText(params.stop, params.min_tokens, params.include_stop_str_in_output)
        return Answer(
            index=index,
            engine_id=engine_id,
            detokenizer=Detokenizer(table if params.detokenize else NO_BYTES, stop),
            logprobs=self._reader(params.logprobs),
            shows_stop=params.include_stop_str_in_output,
        )

    def _reader(self, num_alternatives: int | None) -> LogprobReader | None:
        if num_alternatives is None:
            return None
        return LogprobReader(self._tokenizer.token_bytes, num_alternatives)


def _error_of(error: RequestError | None) -> OctavoError:
    if error is None:
        return RequestFailed("the engine ended it and did not say why")
    if error.status >= 500:
        return RequestFailed(error.message, status=error.status)
    refused = RequestRefused(error.message, param=error.param)
    refused.status = error.status
    return refused
