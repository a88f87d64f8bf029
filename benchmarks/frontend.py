"""What does the frontend cost per token?

Question: CPU time of one engine step in the API process (decode the message, text of every
token, hand it to each request's stream, which a task reads), for 256 and 1,024 running requests.
The engine's messages are encoded beforehand. Also: the detokenizer alone. Prints one JSON line
per case.

    python benchmarks/frontend.py [--steps 200] [--tokenizer FILE.gguf]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import platform
import statistics
import time
from dataclasses import replace

import numpy as np

from octavo.api.frontend.async_llm import AsyncLLM
from octavo.api.frontend.detokenizer import NO_STOP_TEXT, Detokenizer, StopText
from octavo.api.frontend.params import OutputKind, SamplingParams
from octavo.api.frontend.stream import RequestStream
from octavo.api.text.loading import load_tokenizer
from octavo.api.text.tokenizer import Tokenizer
from octavo.contracts.codec import Codec
from octavo.contracts.output import (
    EngineMessage,
    EngineOutput,
    EngineOutputs,
    EngineReady,
    SchedulerStats,
    TokenLogprobs,
)
from octavo.contracts.request import EngineRequest, FrontendMessage
from octavo.testing.fake_config import fake_config
from octavo.testing.fake_tokenizer import FakeTokenizer
from octavo.transport.base import Frames

TEXT = (
    "The capital of Japan is Tokyo — 東京. It has 14 million inhabitants, and 🌸 in spring.\n" * 200
)
STOP = ("\nUser:", "###")
CASES = {
    "stream": SamplingParams(output_kind=OutputKind.DELTA),
    "stream, stop strings": SamplingParams(output_kind=OutputKind.DELTA, stop=STOP),
    "stream, 5 logprobs": SamplingParams(output_kind=OutputKind.DELTA, logprobs=5),
    "whole": SamplingParams(),
}


class PreparedChannel:
    """Satisfies ``FrontendEnd``; keeps what is sent, hands out what is put."""

    def __init__(self) -> None:
        self.sent: list[Frames] = []
        self.waiting: asyncio.Queue[Frames] = asyncio.Queue()

    async def send(self, frames: Frames) -> None:
        self.sent.append(frames)

    async def receive(self) -> Frames:
        return await self.waiting.get()

    def close(self) -> None:
        pass


def logprobs_of(token_id: int) -> TokenLogprobs:
    return TokenLogprobs(
        token_ids=np.array([[token_id, 1, 2, 3, 4, 5]], dtype=np.int32),
        values=np.zeros((1, 6), dtype=np.float32),
        ranks=np.ones(1, dtype=np.int32),
    )


async def read(stream: RequestStream) -> None:
    async for _ in stream:
        pass


async def samples_of(
    tokenizer: Tokenizer, params: SamplingParams, num_requests: int, num_steps: int
) -> tuple[list[float], float]:
    """CPU seconds of each step, and of one ``add``."""
    config = fake_config()
    limits = replace(config.model, vocab_size=tokenizer.vocab_size, max_model_len=4096)
    channel = PreparedChannel()
    llm = AsyncLLM(replace(config, model=limits), channel, tokenizer=tokenizer)
    to_frontend: Codec[EngineMessage] = Codec(EngineMessage)
    from_frontend: Codec[FrontendMessage] = Codec(FrontendMessage)
    ready = EngineReady(0, 1, 4096, 1, 16, "0", phases=[])
    channel.waiting.put_nowait(to_frontend.encode(ready))
    await llm.start()
    params = replace(params, max_tokens=num_steps + 10)
    start = time.process_time()
    streams = [await llm.add([1] * 128, params, request_id=str(i)) for i in range(num_requests)]
    add_s = (time.process_time() - start) / num_requests
    names = [
        message.request_id
        for message in map(from_frontend.decode, channel.sent)
        if isinstance(message, EngineRequest)
    ]
    tasks = [asyncio.create_task(read(stream)) for stream in streams]
    token_ids = tokenizer.encode(TEXT, add_special_tokens=False)
    samples = []
    gc.collect()
    for step in range(num_steps):
        outputs = []
        for number, name in enumerate(names):
            token_id = token_ids[(step + number * 7) % len(token_ids)]
            logprobs = None if params.logprobs is None else logprobs_of(token_id)
            outputs.append(EngineOutput(name, [token_id], logprobs=logprobs))
        stats = SchedulerStats(num_running=num_requests, num_scheduled_tokens=num_requests)
        frames = to_frontend.encode(EngineOutputs(0, 1, outputs, stats, timestamp=time.monotonic()))
        start = time.process_time()
        channel.waiting.put_nowait(frames)
        for _ in range(6):  # the reader, then every stream's task
            await asyncio.sleep(0)
        samples.append(time.process_time() - start)
    await llm.close()
    await asyncio.gather(*tasks, return_exceptions=True)
    return samples, add_s


def detokenizer_us(tokenizer: Tokenizer, stop: StopText) -> float:
    """Microseconds per token, over 10,000 tokens of one answer."""
    token_ids = (tokenizer.encode(TEXT, add_special_tokens=False) * 10)[:10_000]
    samples = []
    for _ in range(5):
        detokenizer = Detokenizer(tokenizer.shown_bytes, stop)
        start = time.process_time()
        for token_id in token_ids:
            detokenizer.push([token_id])
            detokenizer.take()
        samples.append((time.process_time() - start) / len(token_ids) * 1e6)
    return statistics.median(samples)


def report(case: str, **values: object) -> None:
    machine = {"machine": platform.machine(), "python": platform.python_version()}
    print(json.dumps({"benchmark": "frontend", "case": case, **values, **machine}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--tokenizer", help="a .gguf file or folder; else one token per byte")
    args = parser.parse_args()
    tokenizer = load_tokenizer(args.tokenizer) if args.tokenizer else FakeTokenizer()
    for case, params in CASES.items():
        for num_requests in (256, 1024):
            samples, add_s = asyncio.run(samples_of(tokenizer, params, num_requests, args.steps))
            deciles = statistics.quantiles(samples, n=10)
            median = statistics.median(samples)
            report(
                case,
                num_requests=num_requests,
                median_ms=round(median * 1e3, 3),
                p10_ms=round(deciles[0] * 1e3, 3),
                p90_ms=round(deciles[-1] * 1e3, 3),
                us_per_token=round(median / num_requests * 1e6, 2),
                add_us=round(add_s * 1e6, 1),
            )
    for case, stop in (("detokenizer", NO_STOP_TEXT), ("detokenizer, stop", StopText(STOP))):
        report(case, us_per_token=round(detokenizer_us(tokenizer, stop), 3))


if __name__ == "__main__":
    main()
