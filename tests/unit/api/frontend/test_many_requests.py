"""Many streams at once: each is what it would be alone, whatever happens to the others."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field, replace

import pytest

from octavo.api.frontend.outputs import RequestOutput
from octavo.api.frontend.params import OutputKind, SamplingParams
from octavo.api.frontend.stream import RequestStream
from octavo.contracts.output import EngineOutput, FinishReason
from octavo.contracts.request import Abort, EngineRequest
from octavo.kit.errors import Overloaded
from tests.unit.api.frontend.support import CONFIG, Bench, bench

ALPHABET = "ab 日é🎈\n"


@dataclass
class Running:
    """One engine request, as the script plays it."""

    answer: list[int]
    at: int = 0


@dataclass
class Client:
    stream: RequestStream
    params: SamplingParams
    texts: dict[int, str] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    gives_up_after: int | None = None

    def read(self, output: RequestOutput) -> None:
        for part in output.outputs:
            self.texts[part.index] = self.texts.get(part.index, "") + part.text
            if part.finish_reason:
                assert part.index not in self.reasons
                self.reasons[part.index] = part.finish_reason

    async def run(self) -> None:
        num_read = 0
        async for output in self.stream:
            self.read(output)
            num_read += 1
            if num_read == self.gives_up_after:
                await self.stream.aclose()
                return
            for _ in range(num_read % 3):
                await asyncio.sleep(0)

    def check(self) -> None:
        for index in range(self.params.n):
            text, reason = expected(self.stream.request_id, index, self.params)
            if self.gives_up_after is None:
                assert self.texts[index] == text
                assert self.reasons[index] == reason
            else:
                assert text.startswith(self.texts.get(index, ""))


def answer_of(request_id: str, index: int) -> str:
    rng = random.Random(f"{request_id}/{index}")
    return "".join(rng.choice(ALPHABET) for _ in range(rng.randint(1, 60)))


def expected(request_id: str, index: int, params: SamplingParams) -> tuple[str, str]:
    text = answer_of(request_id, index)
    ends = [(text.find(stop), stop) for stop in params.stop if stop in text]
    return (text[: min(ends)[0]], "stop") if ends else (text, "length")


class Script:
    """An engine that gives every request its answer, in random pieces and order."""

    def __init__(self, at: Bench, rng: random.Random) -> None:
        self.at, self.rng = at, rng
        self.running: dict[str, Running] = {}
        self.num_aborted = 0

    async def hear(self) -> None:
        while not self.at.engine.is_quiet:
            match await self.at.engine.next():
                case EngineRequest(request_id=name):
                    outer, _, inner = name.partition("#")
                    answer = answer_of(outer, int(inner.split(".")[1]))
                    self.running[name] = Running(list(answer.encode()))
                case Abort(request_ids=names):
                    self.num_aborted += len(names)
                    for name in names:
                        self.running.pop(name, None)

    def step(self) -> None:
        outputs = []
        for name, running in list(self.running.items()):
            if self.rng.random() < 0.3:
                continue
            piece = running.answer[running.at : running.at + self.rng.randint(1, 3)]
            running.at += len(piece)
            is_done = running.at >= len(running.answer)
            outputs.append(EngineOutput(name, piece, FinishReason.LENGTH if is_done else None))
            if is_done:
                del self.running[name]
        self.rng.shuffle(outputs)
        self.at.engine.say(*outputs)


@pytest.mark.parametrize("seed", range(4))
def test_every_stream_that_is_not_given_up_is_equal_to_its_answer_alone(seed: int) -> None:
    rng = random.Random(seed)
    config = replace(CONFIG, scheduler=replace(CONFIG.scheduler, max_num_seqs=40))

    async def scenario() -> None:
        async with bench(config) as at:
            script, clients, tasks = Script(at, rng), list[Client](), list[asyncio.Task[None]]()
            num_refused = 0
            for number in range(200):
                params = SamplingParams(
                    n=rng.choice([1, 1, 1, 3]),
                    stop=rng.choice([(), ("ab",), ("日é", "ba")]),
                    output_kind=rng.choice(list(OutputKind)),
                )
                try:
                    stream = await at.llm.add("x", params, request_id=f"r{number}")
                except Overloaded:
                    num_refused += 1
                else:
                    client = Client(stream, params)
                    if rng.random() < 0.33:
                        client.gives_up_after = rng.randint(1, 3)
                    clients.append(client)
                    tasks.append(asyncio.create_task(client.run()))
                await script.hear()
                script.step()
                await at.settle()
            while at.llm.num_live:
                await script.hear()
                script.step()
                await at.settle()
            await asyncio.gather(*tasks)
            await script.hear()

            assert len(clients) + num_refused == 200
            assert len(clients) > 100
            for client in clients:
                client.check()
            assert not script.running
            assert script.num_aborted > 0
            # every place is free again
            for _ in range(44):
                await at.llm.add("x", SamplingParams(), request_id="after")

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_frozen_reader_costs_one_output_when_it_wakes() -> None:
    async def scenario() -> None:
        async with bench() as at:
            params = SamplingParams(output_kind=OutputKind.DELTA)
            stream = await at.llm.add("x", params, request_id="a")
            name = (await at.engine.next_request()).request_id
            for _ in range(1000):
                at.engine.say(EngineOutput(name, [97]))
            await at.settle()
            at.engine.say(EngineOutput(name, [98], FinishReason.LENGTH))
            await at.settle()
            outputs = [output async for output in stream]

            assert [output.outputs[0].text for output in outputs] == ["a" * 1000 + "b"]

    asyncio.run(scenario())
