import json
from pathlib import Path

import pytest

from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.errors import InvalidRequest
from dueline.store import Files


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "consumerOffset.json"


def test_offsets_are_there_again_after_a_restart(path: Path) -> None:
    offsets = ConsumerOffsets(path, Files())
    offsets.set("billing", "orders", {0: 17, 1: 20})
    offsets.set("billing", "orders", {1: 21})
    offsets.save()

    again = ConsumerOffsets(path, Files())

    assert again.get("billing", "orders") == {0: 17, 1: 21}
    assert again.get("billing", "other") == {}
    assert again.get("other", "orders") == {}


def test_the_file_is_rocketmqs(path: Path) -> None:
    offsets = ConsumerOffsets(path, Files())
    offsets.set("%RETRY%g", "orders", {3: 5})
    offsets.save()

    assert json.loads(path.read_text()) == {"offsetTable": {"orders@%RETRY%g": {"3": 5}}}


def test_only_changes_are_written(path: Path) -> None:
    offsets = ConsumerOffsets(path, Files())

    assert not offsets.save()
    assert not path.exists()
    offsets.set("g", "t", {0: 1})
    assert offsets.save()
    assert not offsets.save()


@pytest.mark.parametrize(
    ("group", "topic", "queues"),
    [("g g", "t", {0: 1}), ("", "t", {0: 1}), ("g", "t t", {0: 1}), ("g", "t", {0: -1})],
)
def test_what_cannot_be_is_refused(
    path: Path, group: str, topic: str, queues: dict[int, int]
) -> None:
    offsets = ConsumerOffsets(path, Files())

    with pytest.raises(InvalidRequest, match="expected"):
        offsets.set(group, topic, queues)

    assert not offsets.save()


def test_a_damaged_file_is_not_taken_for_an_empty_one(path: Path) -> None:
    path.write_text('{"offsetTable": {"orders@g": {"0": 1')

    with pytest.raises(InvalidRequest, match="expected consumer offsets as JSON"):
        ConsumerOffsets(path, Files())
