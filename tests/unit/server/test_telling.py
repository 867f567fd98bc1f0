import json
from pathlib import Path

import msgspec
import pytest
from tests.unit.server.local import small_config

from dueline.server.telling import (
    AskFigures,
    Begin,
    Event,
    Failed,
    Filled,
    Order,
    PipelineIs,
    PipelineReady,
    PipelineTrouble,
    Ready,
    Refused,
    Stop,
    decode_event,
    decode_order,
    encode,
    from_values,
    to_values,
)


@pytest.mark.parametrize(
    "order",
    [
        Begin(settings={"data": "x", "store.retention": 7, "delivery.conf": {"a": "ä\n"}}),
        AskFigures(),
        PipelineIs(status="starting", pid=None, start_count=3, reason="x\ny"),
        PipelineTrouble(error="no"),
        Stop(),
    ],
)
def test_an_order_is_one_line_and_comes_back(order: Order) -> None:
    line = encode(order)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode_order(line) == order


@pytest.mark.parametrize(
    "event",
    [Ready(text="on"), PipelineReady(), Refused(message="a\nb"), Failed(message=""), Filled()],
)
def test_an_event_is_one_line_and_comes_back(event: Event) -> None:
    line = encode(event)

    assert line.count(b"\n") == 1
    assert decode_event(line) == event


@pytest.mark.parametrize(
    "line", [b"", b"\n", b"warning: x\n", b"{}\n", b'{"type":"begin"}\n', b'{"type":"failed"}\n']
)
def test_what_is_no_event_is_none(line: bytes) -> None:
    assert decode_event(line) is None


def test_what_is_no_order_is_refused() -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_order(b'{"type":"filled"}\n')


def test_settings_come_back_as_they_were(tmp_path: Path) -> None:
    config = small_config(tmp_path, **{"delivery.conf": "a=b,c=d", "store.flush": "async"})

    assert from_values(json.loads(json.dumps(to_values(config)))) == config


def test_settings_of_another_version_are_left_out_or_have_their_defaults(tmp_path: Path) -> None:
    config = small_config(tmp_path, **{"store.flush": "async"})
    values = to_values(config)
    values["store.no_such"] = 1
    del values["store.flush"]

    assert from_values(values) == small_config(tmp_path)
