"""User input and parameters to a validated request in token space."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from hashlib import blake2b

from octavo.api.frontend.bounds import (
    GREEDY_BELOW,
    MAX_REQUEST_ID_CHARS,
    MAX_SALT_CHARS,
    ParamsCheck,
    refuse,
)
from octavo.api.frontend.params import SamplingParams
from octavo.api.frontend.prompts import Prompt, TextPrompt, normalize_prompt
from octavo.api.text.threads import TextThreads
from octavo.api.text.tokenizer import Tokenizer
from octavo.config.octavo import OctavoConfig
from octavo.contracts.sampling import Penalties, TokenSampling
from octavo.kit.errors import PromptTooLong, RequestRefused

_SEED_MASK = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest:
    """A request that the engine can run."""

    prompt: str | None
    prompt_token_ids: list[int]
    sampling: TokenSampling
    """That of the first answer; ``for_answer`` gives the others."""

    def for_answer(self, index: int) -> TokenSampling:
        """Sampling of answer ``index``: its own seed; prompt log-probabilities come once."""
        if index == 0:
            return self.sampling
        fields = {name: getattr(self.sampling, name) for name in self.sampling.__struct_fields__}
        fields["seed"] = derive_seed(self.sampling.seed, index)
        fields["prompt_logprobs"] = None
        return TokenSampling(**fields)


class InputProcessor:
    """Checks a request, turns its text into tokens, fills in what the user left open."""

    def __init__(self, config: OctavoConfig, tokenizer: Tokenizer, threads: TextThreads) -> None:
        self._tokenizer = tokenizer
        self._threads = threads
        self._defaults = dict(config.frontend.default_sampling)
        self._eos_token_ids = list(config.model.eos_token_ids)
        self._vocab_size = config.model.vocab_size
        self._seed = config.frontend.seed
        self._unseeded = itertools.count()
        self.max_model_len = config.model.max_model_len
        """Longest prompt plus answer; the engine may lower it at start. [tokens]"""
        self._longest_token = tokenizer.longest_token_bytes()
        self.params_check = ParamsCheck(
            vocab_size=config.model.vocab_size, max_logprobs=config.frontend.max_logprobs
        )

    def check(
        self, params: SamplingParams, *, request_id: str, priority: int, cache_salt: str
    ) -> None:
        """Refuse what can be refused without looking at the prompt."""
        self.params_check.check(params)
        if not 0 < len(request_id) <= MAX_REQUEST_ID_CHARS:
            want = f"must have 1 to {MAX_REQUEST_ID_CHARS} characters"
            raise refuse("request_id", request_id, want)
        if isinstance(priority, bool) or not -(2**31) <= priority < 2**31:
            raise refuse("priority", priority, "must be an integer from -2**31 to 2**31 - 1")
        if len(cache_salt) > MAX_SALT_CHARS:
            want = f"must have at most {MAX_SALT_CHARS} characters"
            raise refuse("cache_salt", cache_salt, want)
        if params.max_tokens is not None and params.max_tokens >= self.max_model_len:
            want = f"must leave room for a prompt in the model's context ({self.max_model_len})"
            raise refuse("max_tokens", params.max_tokens, want)

    async def prepare(self, prompt: Prompt, params: SamplingParams) -> PreparedRequest:
        """Return the request in token space.

        Raises:
            RequestRefused: the prompt is empty, too long, or holds ids outside the vocabulary.
        """
        given = normalize_prompt(prompt)
        if isinstance(given, TextPrompt):
            token_ids = await self.encode(
                given.text, add_special_tokens=given.add_special_tokens, param=given.param
            )
        else:
            token_ids = given.token_ids
            self.params_check.check_token_ids(given.param, token_ids)
        token_ids, max_tokens = self._fit(token_ids, params, given.param)
        bad_words = await self._encode_bad_words(params.bad_words)
        return PreparedRequest(
            prompt=given.text,
            prompt_token_ids=token_ids,
            sampling=self._sampling(params, max_tokens, bad_words),
        )

    async def encode(self, text: str, *, add_special_tokens: bool, param: str) -> list[int]:
        """Token ids of ``text``, made off the event loop.

        Raises:
            RequestRefused: the text cannot fit into the model's context, or is no Unicode.
        """
        most = self.max_model_len * self._longest_token
        if len(text) > most:
            raise RequestRefused(
                f"{param} has {len(text)} characters: more than {most} never fit into the model's "
                f"context of {self.max_model_len} tokens. Shorten it.",
                param=param,
                code="context_length_exceeded",
            )
        try:
            return await self._threads.encode(
                self._tokenizer, text, add_special_tokens=add_special_tokens
            )
        except UnicodeEncodeError as error:
            raise RequestRefused(
                f"{param} holds half of a surrogate pair at character {error.start}: "
                "must be Unicode text.",
                param=param,
            ) from None

    def _fit(
        self, token_ids: list[int], params: SamplingParams, param: str
    ) -> tuple[list[int], int]:
        """Cut the prompt where the user asks for it; settle ``max_tokens``."""
        limit, wanted = self.max_model_len, params.max_tokens or 1
        keep = params.truncate_prompt_tokens
        if keep is not None:
            if keep > limit:
                want = f"must be at most the model's context ({limit})"
                raise refuse("truncate_prompt_tokens", keep, want)
            token_ids = token_ids[-keep:] if keep > 0 else token_ids[-(limit - wanted) :]
        if not token_ids:
            raise RequestRefused(f"{param} is empty: must hold at least one token.", param=param)
        if len(token_ids) + wanted > limit:
            raise PromptTooLong(
                num_prompt_tokens=len(token_ids), max_tokens=wanted, limit=limit, param=param
            )
        if params.max_tokens is not None:
            return token_ids, params.max_tokens
        room = limit - len(token_ids)
        if params.min_tokens > room:
            want = f"must be at most what the context leaves ({room})"
            raise refuse("min_tokens", params.min_tokens, want)
        return token_ids, room

    async def _encode_bad_words(self, words: tuple[str, ...]) -> list[list[int]] | None:
        """Each word as it is spelled at the start of a text, and after a space."""
        spelled: dict[tuple[int, ...], None] = {}
        for place, word in enumerate(words):
            for text in (word, " " + word.lstrip(" ")):
                token_ids = await self.encode(
                    text, add_special_tokens=False, param=f"bad_words[{place}]"
                )
                if not token_ids:
                    raise refuse(f"bad_words[{place}]", word, "has no tokens", param="bad_words")
                spelled[tuple(token_ids)] = None
        return [list(token_ids) for token_ids in spelled] or None

    def _sampling(
        self, params: SamplingParams, max_tokens: int, bad_words: list[list[int]] | None
    ) -> TokenSampling:
        temperature = self._choose("temperature", params.temperature, 1.0)
        eos = [] if params.ignore_eos else self._eos_token_ids
        stops = dict.fromkeys((*params.stop_token_ids, *eos))
        return TokenSampling(
            max_tokens=max_tokens,
            min_tokens=params.min_tokens,
            temperature=0.0 if temperature < GREEDY_BELOW else temperature,
            top_k=self._top_k(params.top_k),
            top_p=self._choose("top_p", params.top_p, 1.0),
            min_p=self._choose("min_p", params.min_p, 0.0),
            seed=self._settle_seed(params.seed),
            stop_token_ids=list(stops),
            eos_token_ids=list(eos),
            penalties=self._penalties(params),
            logit_bias={k: float(v) for k, v in (params.logit_bias or {}).items()} or None,
            allowed_token_ids=(
                None if params.allowed_token_ids is None else sorted(set(params.allowed_token_ids))
            ),
            bad_words_token_ids=bad_words,
            logprobs=params.logprobs,
            prompt_logprobs=params.prompt_logprobs,
        )

    def _choose(self, name: str, given: float | None, neutral: float) -> float:
        return float(self._defaults.get(name, neutral) if given is None else given)

    def _top_k(self, given: int | None) -> int:
        top_k = int(self._choose("top_k", given, 0))
        return top_k if 0 < top_k < self._vocab_size else 0

    def _penalties(self, params: SamplingParams) -> Penalties | None:
        penalties = Penalties(
            repetition=self._choose("repetition_penalty", params.repetition_penalty, 1.0),
            presence=float(params.presence_penalty),
            frequency=float(params.frequency_penalty),
        )
        return None if penalties == Penalties() else penalties

    def _settle_seed(self, given: int | None) -> int:
        if given is not None:
            return given & _SEED_MASK
        return derive_seed(self._seed, next(self._unseeded))


def derive_seed(seed: int, index: int) -> int:
    """A seed from a seed: unrelated for any two indices, the same on every machine."""
    digest = blake2b(f"{seed}/{index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") & _SEED_MASK
