from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest

from octavo.contracts.codec import Codec
from octavo.contracts.output import EngineDead, EngineMessage, EngineOutputs, EngineReady
from octavo.contracts.request import Abort, FrontendMessage, Shutdown, UtilityCall
from octavo.engine.executor.base import WorkerFailed
from octavo.engine.main import run_engine
from octavo.kit.errors import CheckpointError
from octavo.testing.fake_config import fake_config
from octavo.testing.fake_tokens import answer_alone
from octavo.testing.fake_worker import FakeWorker, make_faulty_worker, make_worker
from octavo.testing.local_executor import LocalExecutor
from tests.engine.harness import request

INCOMING: Codec[FrontendMessage] = Codec(FrontendMessage)
OUTGOING: Codec[EngineMessage] = Codec(EngineMessage)


class ScriptedChannel:
    """Gives one message at a time, the next when the engine has nothing else to do."""

    def __init__(self, *script: FrontendMessage | list[bytes]) -> None:
        self._script = deque(script)
        self.sent: list[EngineMessage] = []

    def send(self, frames) -> None:
        self.sent.append(OUTGOING.decode(frames))

    def receive(self, timeout_s):
        if timeout_s == 0:
            return None
        if not self._script:
            return INCOMING.encode(Shutdown())
        message = self._script.popleft()
        return message if isinstance(message, list) else INCOMING.encode(message)

    def close(self) -> None:
        raise AssertionError("the channel is not the engine's to close")

    @property
    def outputs(self):
        return [o for m in self.sent if isinstance(m, EngineOutputs) for o in m.outputs]


class ClosingExecutor(LocalExecutor):
    num_closed = 0

    def close(self):
        self.num_closed += 1
        super().close()


@pytest.mark.parametrize("overlap", [False, True])
def test_an_engine_says_it_is_ready_and_answers(overlap):
    config = fake_config()
    config = replace(config, scheduler=replace(config.scheduler, overlap=overlap))
    asked = request("r", [1, 2, 3], 5)
    channel, executor = ScriptedChannel(asked), ClosingExecutor(config, make_worker)

    run_engine(config, channel, executor, engine=3, generation=7)

    ready = channel.sent[0]
    assert isinstance(ready, EngineReady)
    assert (ready.engine, ready.generation, ready.num_blocks, ready.block_size) == (3, 7, 257, 4)
    assert [name for name, _ in ready.phases] == [
        "import worker",
        "load weights",
        "plan KV cache",
        "allocate and warm up",
    ]
    expected, reason = answer_alone(asked, vocab_size=997, max_model_len=256)
    assert [t for o in channel.outputs for t in o.new_token_ids] == expected
    assert channel.outputs[-1].finish_reason is reason
    assert all((m.engine, m.generation) == (3, 7) for m in channel.sent[1:])
    assert executor.num_closed == 1


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (request("r", [], 5), "no tokens"),
        (request("r", range(256), 5), "256 tokens before the first new one"),
        (request("r", [1], 0), "max_tokens=0"),
    ],
)
def test_a_request_that_cannot_run_is_answered_with_an_error(asked, words):
    config = fake_config()
    channel = ScriptedChannel(asked)

    run_engine(config, channel, LocalExecutor(config, make_worker))

    [output] = channel.outputs
    assert words in output.error.message
    assert output.error.status == 400


def test_a_message_that_is_none_hurts_nobody():
    config = fake_config()
    channel = ScriptedChannel([b"\xc1"], [], [b"\x93\x01\x02\x03"], request("r", [1], 2))

    run_engine(config, channel, LocalExecutor(config, make_worker))

    assert sum(len(o.new_token_ids) for o in channel.outputs) == 2


def test_an_abort_of_nobody_and_a_second_request_with_the_same_id_change_nothing():
    config = fake_config()
    channel = Burst([Abort(["nobody"]), request("r", [1], 3), request("r", [2], 3)])

    run_engine(config, channel, LocalExecutor(config, make_worker))

    assert sum(len(o.new_token_ids) for o in channel.outputs) == 3


def test_shutdown_ends_what_runs():
    config = fake_config()
    channel = Burst([request("r", [1], 200), Shutdown()])

    run_engine(config, channel, LocalExecutor(config, make_worker))

    assert [o.finish_reason for o in channel.outputs] == ["abort"]
    assert not any(isinstance(m, EngineDead) for m in channel.sent)


class Burst(ScriptedChannel):
    """Gives all messages at once."""

    def __init__(self, messages) -> None:
        super().__init__()
        self._messages = deque(messages)

    def receive(self, timeout_s):
        if self._messages:
            return INCOMING.encode(self._messages.popleft())
        return super().receive(timeout_s)


def test_control_calls_are_answered_and_unknown_ones_say_what_there_is():
    config = fake_config()
    calls = [
        request("r", range(1, 21), 2),
        UtilityCall(1, "reset_prefix_cache"),
        UtilityCall(2, "num_requests"),
        UtilityCall(3, "num_free_blocks"),
        UtilityCall(4, "fly"),
        UtilityCall(5, "num_requests", ["x"]),
        UtilityCall(6, "abort_all"),
    ]
    channel = ScriptedChannel(*calls)

    run_engine(config, channel, LocalExecutor(config, make_worker))

    results = {
        m.utility.call_id: m.utility
        for m in channel.sent
        if isinstance(m, EngineOutputs) and m.utility is not None
    }
    assert results[1].value == 5
    assert results[2].value == 0
    assert results[3].value == 256
    assert "no method 'fly'; it has abort_all" in results[4].error
    assert "takes no arguments" in results[5].error
    assert results[6].value == 0


def test_abort_all_ends_every_request():
    config = fake_config()
    channel = Burst([request("a", [1], 50), request("b", [2], 50), UtilityCall(1, "abort_all")])

    run_engine(config, channel, LocalExecutor(config, make_worker))

    assert [o.finish_reason for o in channel.outputs] == ["abort", "abort"]


class NoWeights(FakeWorker):
    def load(self):
        raise CheckpointError("model.gguf is cut off:\nwant 12 bytes")


class Lost(FakeWorker):
    def execute(self, plan):
        raise WorkerFailed("rank 0 ended with signal 9", is_fatal=True)


class Buggy(FakeWorker):
    def execute(self, plan):
        raise ZeroDivisionError("ours")


@pytest.mark.parametrize(
    ("worker", "dead"),
    [
        (NoWeights, EngineDead(0, "model.gguf is cut off: want 12 bytes", "start", operator=True)),
        (Lost, EngineDead(0, "rank 0 ended with signal 9", "worker")),
        (Buggy, EngineDead(0, "ZeroDivisionError: ours", "engine")),
    ],
)
def test_an_engine_that_cannot_go_on_says_so_and_closes_its_workers(worker, dead):
    config = fake_config()
    channel = ScriptedChannel(request("r", [1], 3))
    executor = ClosingExecutor(config, worker)

    run_engine(config, channel, executor)

    assert channel.sent[-1] == dead
    assert executor.num_closed == 1


def test_a_cache_that_does_not_fit_is_the_operators_affair():
    class Small(FakeWorker):
        def measure_memory(self):
            return replace_available(super().measure_memory(), 1000)

    config = fake_config()
    channel = ScriptedChannel()

    run_engine(config, channel, LocalExecutor(config, Small))

    [dead] = channel.sent
    assert dead.operator
    assert "needs 32896 bytes, and 1000 are left" in dead.error


def replace_available(report, available):
    return type(report)(report.total_bytes, report.weights_bytes, report.workspace_bytes, available)


def test_a_failed_step_is_told_to_nobody_but_the_request_that_broke_it():

    config = fake_config()
    channel = Burst([request("good", [1], 3), request("bad", [996], 3)])

    run_engine(config, channel, LocalExecutor(config, make_faulty_worker))

    ends = {o.request_id: o.finish_reason for o in channel.outputs if o.finish_reason}
    assert ends == {"good": "length", "bad": "error"}
