"""Many requests at once, some of them given up, and what each says alone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from octavo.api.frontend.params import SamplingParams

_WORDS = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "it",
    "you",
    "that",
    "he",
    "was",
    "for",
    "on",
    "are",
    "with",
    "as",
    "his",
    "they",
    "be",
    "at",
    "one",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, and after how many pieces of its answer the client hangs up."""

    prompt: str
    max_tokens: int
    temperature: float
    seed: int
    hang_up_after: int | None

    def sampling(self, **more: object) -> SamplingParams:
        return SamplingParams(
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            seed=self.seed,
            ignore_eos=True,
            **more,  # type: ignore[arg-type]  # fields of SamplingParams
        )

    def body(self) -> dict[str, object]:
        """The request as ``/v1/completions`` takes it."""
        return {
            "prompt": self.prompt,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "seed": self.seed,
            "ignore_eos": True,
            "stream": True,
        }


Stream = Callable[[Call], AsyncIterator[str]]


def crowd_of(num_calls: int, *, seed: int, max_tokens: int) -> list[Call]:
    """Calls that share beginnings in groups; a third of them hang up at random."""
    rng = random.Random(seed)
    beginnings = [_text(rng, rng.randint(1, 40)) for _ in range(max(1, num_calls // 8))]
    return [
        Call(
            prompt=f"{rng.choice(beginnings)} {_text(rng, rng.randint(1, 12))}",
            max_tokens=rng.randint(max_tokens // 4, max_tokens),
            temperature=rng.choice((0.0, 1.0)),
            seed=number,
            hang_up_after=rng.randint(0, max_tokens // 4) if number % 3 == 0 else None,
        )
        for number in range(num_calls)
    ]


async def together(calls: list[Call], stream: Stream) -> list[str | None]:
    """Texts of all calls made at once; None for those that hung up."""

    async def one(call: Call) -> str | None:
        await asyncio.sleep(random.Random(call.seed).random() * 0.5)
        return await _read(call, stream, call.hang_up_after)

    return await asyncio.gather(*map(one, calls))


async def alone(calls: list[Call], stream: Stream) -> list[str]:
    """Texts of calls made one after the other."""
    return [await _read(call, stream, None) or "" for call in calls]


async def _read(call: Call, stream: Stream, hang_up_after: int | None) -> str | None:
    pieces: list[str] = []
    async with aclosing(stream(call)) as answer:  # type: ignore[type-var]  # generators have it
        if hang_up_after == 0:
            return None
        async for piece in answer:
            pieces.append(piece)
            if len(pieces) == hang_up_after:
                return None
    return "".join(pieces) if hang_up_after is None else None  # it ended before


def _text(rng: random.Random, num_words: int) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(num_words))
