"""Build EngineOutputs: what each request is told of a step."""

from __future__ import annotations

from octavo.contracts.output import EngineOutput, FinishReason, RequestError, TokenLogprobs
from octavo.contracts.runner import ModelRunnerOutput, RowStatus
from octavo.engine.request import InFlight, Request
from octavo.engine.update.stop import stop_reason

ROW_ERRORS = {
    RowStatus.NOT_FINITE: RequestError(
        "the model computed logits for this request that are not finite (NaN or infinity), so no "
        "token could be chosen. Other prompts are served; if many fail, check the weights and "
        "--dtype.",
    ),
    RowStatus.NOTHING_ALLOWED: RequestError(
        "the request's parameters exclude every token. Allow more with allowed_token_ids, or "
        "loosen bad_words, logit_bias or min_tokens.",
        status=400,
    ),
}

NO_TOKEN = RequestError("the worker gave no token for a request whose last token it computed.")


def token_output(
    request: Request,
    new_token_ids: list[int],
    reason: FinishReason | None = None,
    logprobs: TokenLogprobs | None = None,
    prompt_logprobs: TokenLogprobs | None = None,
) -> EngineOutput:
    """Return news of a request; the first also says how it was started."""
    is_first = not request.is_announced
    request.is_announced = True
    return EngineOutput(
        request_id=request.request_id,
        new_token_ids=new_token_ids,
        finish_reason=reason,
        stop_reason=stop_reason(request) if reason is FinishReason.STOP else None,
        num_cached_tokens=request.num_cached_tokens if is_first else -1,
        scheduled_time=request.scheduled_time if is_first else 0.0,
        logprobs=logprobs,
        prompt_logprobs=prompt_logprobs,
    )


def error_output(request_id: str, error: RequestError) -> EngineOutput:
    """Return the end of a request that cannot go on."""
    return EngineOutput(request_id, [], FinishReason.ERROR, error=error)


def logprobs_by_place(flight: InFlight, sampled: ModelRunnerOutput) -> dict[int, TokenLogprobs]:
    """Cut the log-probabilities of a step's tokens into those of each place in the plan."""
    if sampled.logprob_rows is None or sampled.logprobs is None:
        return {}
    cut: dict[int, TokenLogprobs] = {}
    for index, place in enumerate(sampled.logprob_rows.tolist()):
        width = 1 + (flight.requests[place].sampling.logprobs or 0)
        cut[place] = _slice(sampled.logprobs, slice(index, index + 1), width)
    return cut


def prompt_logprobs_by_place(
    flight: InFlight, sampled: ModelRunnerOutput
) -> dict[int, TokenLogprobs]:
    """Return the prompt log-probabilities of each place that were not sent before.

    Call it before the step's tokens are confirmed: what a resumed request computes again is told
    by how far it has come.
    """
    cut: dict[int, TokenLogprobs] = {}
    for piece in sampled.prompt_logprobs:
        request = flight.requests[piece.index]
        skip = request.num_prompt_logprobs - request.num_confirmed_tokens
        num_new = len(piece.logprobs.ranks) - skip
        if num_new <= 0:
            continue
        request.num_prompt_logprobs += num_new
        width = 1 + (request.sampling.prompt_logprobs or 0)
        cut[piece.index] = _slice(piece.logprobs, slice(skip, None), width)
    return cut


def _slice(logprobs: TokenLogprobs, rows: slice, width: int) -> TokenLogprobs:
    return TokenLogprobs(
        token_ids=logprobs.token_ids[rows, :width],
        values=logprobs.values[rows, :width],
        ranks=logprobs.ranks[rows],
    )
