"""One answer of one request: what the engine said, until the user takes it."""

from __future__ import annotations

from dataclasses import dataclass, field

from octavo.api.frontend.detokenizer import Detokenizer
from octavo.api.frontend.logprobs import LogprobReader
from octavo.api.frontend.outputs import CompletionOutput, Logprob
from octavo.contracts.output import EngineOutput, FinishReason, TokenLogprobs


@dataclass(slots=True)
class Answer:
    """Grows by ``apply``, is emptied by ``take``. One engine request stands behind it."""

    index: int
    engine_id: str
    detokenizer: Detokenizer
    logprobs: LogprobReader | None
    shows_stop: bool
    """The token that ended the answer stays in its text."""
    num_tokens: int = 0
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    last_token_time: float = 0.0
    """When the engine sent the newest token; 0 before the first. [s]"""
    first_token_time: float = 0.0
    """When the engine sent the first token; 0 before. [s]"""
    _token_ids: list[int] = field(default_factory=list)
    _logprob_rows: list[TokenLogprobs] = field(default_factory=list)
    _cumulative_logprob: float = 0.0
    _is_changed: bool = False

    def apply(self, output: EngineOutput) -> None:
        """Take in what one step brought."""
        token_ids = output.new_token_ids
        if token_ids:
            self._take_tokens(output)
        if self.finish_reason is None and output.finish_reason is not None:
            self.end(str(output.finish_reason), output.stop_reason)

    def end(self, finish_reason: str, stop_reason: int | str | None = None) -> None:
        """No more tokens come."""
        self.detokenizer.finish()
        self.finish_reason = finish_reason
        self.stop_reason = stop_reason
        self._is_changed = True

    def fail(self) -> None:
        """No more tokens come, and no reason is shown: the stream raises one."""
        self.detokenizer.finish()
        self.finish_reason = "error"

    @property
    def is_changed(self) -> bool:
        """There is something that was not taken yet."""
        return self._is_changed

    def take(self) -> CompletionOutput:
        """Return what is new, and forget it."""
        positions = self._take_logprobs()
        output = CompletionOutput(
            index=self.index,
            text=self.detokenizer.take(),
            token_ids=self._token_ids,
            logprobs=positions,
            cumulative_logprob=None if positions is None else self._cumulative_logprob,
            finish_reason=None if self.finish_reason == "error" else self.finish_reason,
            stop_reason=self.stop_reason,
        )
        self._token_ids = []
        self._is_changed = False
        return output

    def _take_tokens(self, output: EngineOutput) -> None:
        token_ids, text_ids = output.new_token_ids, output.new_token_ids
        if output.finish_reason is FinishReason.STOP and not self.shows_stop:
            text_ids = token_ids[:-1]
        num_read = self.detokenizer.push(text_ids)
        if self.detokenizer.stop_string is not None:
            token_ids = token_ids[:num_read]
            self.end("stop", self.detokenizer.stop_string)
        self.num_tokens += len(token_ids)
        self._token_ids += token_ids
        if self.logprobs is not None and output.logprobs is not None:
            self._logprob_rows.append(_first_rows(output.logprobs, len(token_ids)))
        self._is_changed = True

    def _take_logprobs(self) -> list[dict[int, Logprob]] | None:
        if self.logprobs is None:
            return None
        positions: list[dict[int, Logprob]] = []
        for rows in self._logprob_rows:
            self._cumulative_logprob += float(rows.values[:, 0].sum())
            positions += self.logprobs.read(rows)
        self._logprob_rows = []
        return positions


def _first_rows(rows: TokenLogprobs, count: int) -> TokenLogprobs:
    if len(rows.token_ids) == count:
        return rows
    return TokenLogprobs(
        token_ids=rows.token_ids[:count], values=rows.values[:count], ranks=rows.ranks[:count]
    )
