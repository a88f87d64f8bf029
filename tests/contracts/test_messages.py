"""Every message survives the wire, and the wire is what it was."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from octavo.contracts.codec import Codec, Message
from octavo.contracts.output import EngineDead, EngineMessage, EngineOutputs, EngineReady
from octavo.contracts.request import Abort, EngineRequest, FrontendMessage, Shutdown, UtilityCall
from tests.contracts.golden import make_golden, read_golden
from tests.contracts.samples import full, least, message_types, same

TYPES = message_types()
by_name = pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)


@by_name
@pytest.mark.parametrize("sample", [full, least])
def test_a_message_survives_the_round_trip(kind: type[Message], sample: Any) -> None:
    codec: Codec[Message] = Codec(kind)
    message = sample(kind)

    arrived = codec.decode(codec.encode(message))

    assert same(arrived, message)


@by_name
def test_the_full_sample_sets_every_field_to_something_else_than_its_default(
    kind: type[Message],
) -> None:
    message = full(kind)

    for field in msgspec.structs.fields(kind):
        if not field.required:
            default = (
                field.default_factory() if field.default is msgspec.NODEFAULT else field.default
            )
            assert not same(getattr(message, field.name), default), field.name


def test_the_bytes_of_every_message_are_the_recorded_ones() -> None:
    made, recorded = make_golden(), read_golden()

    changed = [name for name in made.keys() | recorded if made.get(name) != recorded.get(name)]

    assert not sorted(changed), "the wire changed; if on purpose: python -m tests.contracts.golden"


def test_types_whose_samples_are_recorded_are_all_types() -> None:
    names = {name.split()[0] for name in read_golden()}

    assert names == {kind.__name__ for kind in TYPES}
    assert len(names) >= 20


@by_name
def test_messages_are_frozen(kind: type[Message]) -> None:
    message = least(kind)

    for name in kind.__struct_fields__:
        with pytest.raises(AttributeError):
            setattr(message, name, None)


@pytest.mark.parametrize("kind", [EngineRequest, Abort, UtilityCall, Shutdown])
def test_a_union_tells_messages_to_the_engine_apart(kind: type[Message]) -> None:
    codec: Codec[FrontendMessage] = Codec(FrontendMessage)

    arrived = codec.decode(codec.encode(full(kind)))

    assert type(arrived) is kind


@pytest.mark.parametrize("kind", [EngineOutputs, EngineReady, EngineDead])
def test_a_union_tells_messages_of_the_engine_apart(kind: type[Message]) -> None:
    codec: Codec[EngineMessage] = Codec(EngineMessage)

    arrived = codec.decode(codec.encode(full(kind)))

    assert type(arrived) is kind


def test_a_sender_without_the_last_field_is_understood() -> None:
    codec: Codec[EngineRequest] = Codec(EngineRequest)
    head, *arrays = codec.encode(full(EngineRequest))
    fields = msgspec.msgpack.decode(head)

    older = codec.decode([msgspec.msgpack.encode(fields[:-1]), *arrays])

    assert older.output_token_ids == []
    assert older.request_id == "the request_id"
