"""Call 3: hidden states to the reply of a step."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from octavo.contracts.runner import ModelRunnerOutput, PromptLogprobs, RowStatus
from octavo.device.batch import DeviceBatch, StepRows
from octavo.device.ops.upload import upload
from octavo.device.sample.direct import DirectDraw, Fetched
from octavo.device.sample.logprobs import positions_at_once, prompt_logprobs
from octavo.device.sample.sampler import Drawn, Sampler
from octavo.device.sample.state import SamplingState

LMHead = Callable[[Tensor], Tensor]
"""Hidden states to logits, [S, hidden_size] to [S, V]."""


class TokenDrawer:
    """Runs the LM head where it is needed, draws, and writes the tokens to their rows.

    With ``direct``, steps that it serves are returned before their tokens are there.
    """

    def __init__(
        self,
        batch: DeviceBatch,
        state: SamplingState,
        sampler: Sampler,
        lm_head: LMHead,
        *,
        direct: DirectDraw | None = None,
    ) -> None:
        self._batch = batch
        self._state = state
        self._sampler = sampler
        self._lm_head = lm_head
        self._positions_at_once = positions_at_once(state.vocab_size)
        self._direct = direct

    def sample(
        self, step: StepRows, hidden: Tensor, start_time: float
    ) -> ModelRunnerOutput | Fetched:
        """Draw the tokens of ``step``, which was taken up at ``start_time``.

        Shapes:
            hidden: [T, hidden_size]
        """
        for request in step.new:
            self._state.start(request.row, request.sampling)
        if self._direct is not None and self._direct.serves(step):
            self._direct.draw(step, lambda: self._lm_head(_sampling_rows(step, hidden)))
            return self._direct.fetch(step, start_time)
        count = len(step.rows)
        status = np.zeros(count, np.int32)
        prompts = self._prompt_logprobs(step, hidden, status)
        token_ids, num_tokens = np.zeros((count, 1), np.int32), np.zeros(count, np.int32)
        places, drawn = step.sampling, self._draw(step, hidden)
        if drawn is not None:
            token_ids[places, 0] = drawn.token_ids.cpu().numpy()
            status[places] = np.maximum(status[places], drawn.status)
            num_tokens[places] = status[places] == RowStatus.OK
        reported = None if drawn is None else drawn.logprob_places
        return ModelRunnerOutput(
            step=step.step,
            token_ids=token_ids,
            num_tokens=num_tokens,
            row_status=status,
            logprob_rows=None if reported is None else places[reported].astype(np.int32),
            logprobs=None if drawn is None else drawn.logprobs,
            prompt_logprobs=prompts,
            device_time_s=time.perf_counter() - start_time,
        )

    def _draw(self, step: StepRows, hidden: Tensor) -> Drawn | None:
        """Draw for the rows that sample, if there are any, and append to the rows."""
        if len(step.sampling) == 0:
            return None
        rows = step.rows[step.sampling]
        drawn = self._sampler.draw(self._lm_head(_sampling_rows(step, hidden)), rows)
        self._batch.append(rows, drawn.token_ids)
        return drawn

    def _prompt_logprobs(
        self, step: StepRows, hidden: Tensor, status: np.ndarray
    ) -> list[PromptLogprobs]:
        """Report the prompt tokens that this step predicts, for the rows that want them."""
        wanted = self._state.num_prompt_logprobs[step.rows]
        found: list[PromptLogprobs] = []
        for place in np.flatnonzero(wanted >= 0).tolist():
            row, start = int(step.rows[place]), int(step.starts[place])
            count = min(
                int(step.lengths[place]), int(self._batch.num_prompt_tokens[row]) - 1 - start
            )
            if count <= 0:
                continue
            begin = int(step.query_start[place])
            tokens = self._batch.token_ids[row, start + 1 : start + 1 + count].to(torch.int64)
            pieces = torch.split(hidden[begin : begin + count], self._positions_at_once)
            logprobs = prompt_logprobs(map(self._lm_head, pieces), tokens, int(wanted[place]))
            if logprobs is None:
                status[place] = RowStatus.NOT_FINITE
            else:
                found.append(PromptLogprobs(place, logprobs))
        return found


def _sampling_rows(step: StepRows, hidden: Tensor) -> Tensor:
    """Return the last hidden states of the rows that sample, [S, hidden_size]."""
    if len(step.sampling) == len(hidden):
        return hidden
    return hidden[upload(step.query_start[1:][step.sampling] - 1, hidden.device)]
