"""Bounds of every sampling parameter, and the refusals that name them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from octavo.api.frontend.params import SamplingParams
from octavo.kit.errors import RequestRefused

GREEDY_BELOW = 1e-5
"""Temperatures under this one are 0: the largest logit wins."""

MAX_N = 128
MAX_STOP_STRINGS = 32
MAX_STOP_CHARS = 512
MAX_STOP_TOKENS = 256
MAX_BAD_WORDS = 256
MAX_BAD_WORD_CHARS = 256
MAX_LOGIT_BIAS = 4096
MAX_REQUEST_ID_CHARS = 256
MAX_SALT_CHARS = 256


@dataclass(frozen=True, slots=True)
class _Range:
    low: float
    high: float
    is_whole: bool = False
    excludes_low: bool = False

    def words(self) -> str:
        kind = "an integer" if self.is_whole else "a number"
        bound = f"above {self.low}" if self.excludes_low else f"from {self.low}"
        return f"must be {kind} {bound} to {self.high}"

    def holds(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int if self.is_whole else int | float):
            return False
        if not math.isfinite(value) or not self.low <= value <= self.high:
            return False
        return not (self.excludes_low and value == self.low)


_RANGES = {
    "n": _Range(1, MAX_N, is_whole=True),
    "min_tokens": _Range(0, 2**31 - 1, is_whole=True),
    "temperature": _Range(0, 100),
    "top_p": _Range(0, 1, excludes_low=True),
    "top_k": _Range(-1, 2**31 - 1, is_whole=True),
    "min_p": _Range(0, 1),
    "repetition_penalty": _Range(0.01, 100),
    "presence_penalty": _Range(-2, 2),
    "frequency_penalty": _Range(-2, 2),
}
_MAX_TOKENS = _Range(1, 2**31 - 1, is_whole=True)
_BIAS = _Range(-100, 100)


def refuse(name: str, value: object, want: str, *, param: str | None = None) -> RequestRefused:
    """The refusal of ``name``; a long value is cut."""
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return RequestRefused(f"{name}={shown}: {want}.", param=param or name)


class ParamsCheck:
    """Refuses sampling parameters that are out of bounds for one model."""

    def __init__(self, *, vocab_size: int, max_logprobs: int) -> None:
        self._vocab_size = vocab_size
        self._logprobs = _Range(0, max_logprobs, is_whole=True)

    def check(self, params: SamplingParams) -> None:
        """Look at every field.

        Raises:
            RequestRefused: the first field that is out of bounds, its value and the bound.
        """
        self._check_numbers(params)
        self._check_lengths(params)
        self._check_text(params)
        self._check_token_lists(params)

    def check_token_ids(self, name: str, token_ids: Collection[int]) -> None:
        """Refuse ids outside the vocabulary."""
        if set(map(type, token_ids)) <= {int} and (
            not token_ids or (min(token_ids) >= 0 and max(token_ids) < self._vocab_size)
        ):
            return
        want = _Range(0, self._vocab_size - 1, is_whole=True)
        for place, token_id in enumerate(token_ids):
            if not want.holds(token_id):
                raise refuse(f"{name}[{place}]", token_id, want.words(), param=name)

    def _check_numbers(self, params: SamplingParams) -> None:
        for name, value in _numbers(params):
            want = _RANGES[name]
            if not want.holds(value):
                raise refuse(name, value, want.words())
        for name, count in (
            ("logprobs", params.logprobs),
            ("prompt_logprobs", params.prompt_logprobs),
        ):
            if count is not None and not self._logprobs.holds(count):
                raise refuse(name, count, self._logprobs.words())
        seed = _Range(-(2**63), 2**63 - 1, is_whole=True)
        if params.seed is not None and not seed.holds(params.seed):
            raise refuse("seed", params.seed, "must be an integer from -2**63 to 2**63 - 1")

    def _check_lengths(self, params: SamplingParams) -> None:
        if params.max_tokens is not None:
            if not _MAX_TOKENS.holds(params.max_tokens):
                raise refuse("max_tokens", params.max_tokens, _MAX_TOKENS.words())
            if params.min_tokens > params.max_tokens:
                want = f"must be at most max_tokens ({params.max_tokens})"
                raise refuse("min_tokens", params.min_tokens, want)
        keep = params.truncate_prompt_tokens
        if keep is not None and (isinstance(keep, bool) or (keep != -1 and keep < 1)):
            raise refuse("truncate_prompt_tokens", keep, "must be -1 or at least 1")

    def _check_text(self, params: SamplingParams) -> None:
        _check_strings("stop", params.stop, MAX_STOP_STRINGS, MAX_STOP_CHARS)
        _check_strings("bad_words", params.bad_words, MAX_BAD_WORDS, MAX_BAD_WORD_CHARS)
        if params.stop and not params.detokenize:
            raise refuse("stop", list(params.stop), "needs detokenize=True")

    def _check_token_lists(self, params: SamplingParams) -> None:
        if len(params.stop_token_ids) > MAX_STOP_TOKENS:
            want = f"must have at most {MAX_STOP_TOKENS} items"
            raise refuse("stop_token_ids", len(params.stop_token_ids), want)
        self.check_token_ids("stop_token_ids", params.stop_token_ids)
        if params.allowed_token_ids is not None:
            if not 0 < len(params.allowed_token_ids) <= self._vocab_size:
                want = f"must have 1 to {self._vocab_size} items"
                raise refuse("allowed_token_ids", list(params.allowed_token_ids), want)
            self.check_token_ids("allowed_token_ids", params.allowed_token_ids)
        if params.logit_bias:
            if len(params.logit_bias) > MAX_LOGIT_BIAS:
                want = f"must have at most {MAX_LOGIT_BIAS} items"
                raise refuse("logit_bias", len(params.logit_bias), want)
            self.check_token_ids("logit_bias", params.logit_bias)
            for token_id, bias in params.logit_bias.items():
                if not _BIAS.holds(bias):
                    raise refuse(f"logit_bias[{token_id}]", bias, _BIAS.words(), param="logit_bias")


def _numbers(params: SamplingParams) -> Iterable[tuple[str, object]]:
    optional: list[tuple[str, object]] = [
        ("temperature", params.temperature),
        ("top_p", params.top_p),
        ("top_k", params.top_k),
        ("min_p", params.min_p),
        ("repetition_penalty", params.repetition_penalty),
    ]
    return [
        ("n", params.n),
        ("min_tokens", params.min_tokens),
        ("presence_penalty", params.presence_penalty),
        ("frequency_penalty", params.frequency_penalty),
        *((name, value) for name, value in optional if value is not None),
    ]


def _check_strings(name: str, strings: Collection[str], most: int, most_chars: int) -> None:
    if len(strings) > most:
        raise refuse(name, list(strings), f"must have at most {most} items")
    for place, string in enumerate(strings):
        if not 0 < len(string) <= most_chars:
            raise refuse(
                f"{name}[{place}]",
                string,
                f"must be a string of 1 to {most_chars} characters",
                param=name,
            )
