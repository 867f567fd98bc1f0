"""Headers of tools: names of two releases, and all of them written and read again."""

import dataclasses
from typing import Any, cast

import pytest

from dueline.wire import admin_headers, headers
from dueline.wire.header import Header

ALL = [getattr(module, name) for module in (headers, admin_headers) for name in module.__all__]
_SAMPLES = {"str": "text", "int": 7, "Long": 1 << 40, "bool": True}


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_header_is_read_as_it_was_written(kind: type[Header]) -> None:
    values = {
        field.name: _SAMPLES[str(field.type).removesuffix(" | None")]
        for field in dataclasses.fields(cast(Any, kind))
    }
    full = kind(**values)

    encoded = full.encode()

    assert len(encoded) == len(values)
    assert set(map(type, encoded.values())) == {str}
    assert kind.decode(encoded) == full


def test_create_topic_as_the_tool_sends_it() -> None:
    decoded = admin_headers.CreateTopicRequest.decode(
        {
            "topic": "T",
            "defaultTopic": "TBW102",
            "readQueueNums": "8",
            "writeQueueNums": "8",
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
            "attributes": "+message.type=DELAY",
        }
    )

    assert (decoded.topic, decoded.read_queue_nums, decoded.perm) == ("T", 8, 6)
    assert decoded.attributes == "+message.type=DELAY"


@pytest.mark.parametrize("name", ["removeOffset", "cleanOffset"])
def test_both_releases_can_remove_offsets(name: str) -> None:
    request = admin_headers.DeleteGroupRequest

    assert request.decode({"groupName": "g", name: "true"}).removes_offsets
    assert not request.decode({"groupName": "g"}).removes_offsets
