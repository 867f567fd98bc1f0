"""Topics: made by hand, by a send, or by their messages; and still there after a restart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dueline.broker.topics import TopicConfig, TopicOptions, Topics
from dueline.clock import Clock
from dueline.errors import InvalidRequest, NotFound
from dueline.store import Files


class Stored:
    """Queues that hold messages."""

    def __init__(self, names: list[tuple[str, int]]) -> None:
        self._names = names

    def queues(self) -> list[tuple[str, int]]:
        return self._names

    def queue_ids(self, topic: str) -> list[int]:
        return [queue_id for name, queue_id in self._names if name == topic]


def make(
    folder: Path, *, auto_create: bool = True, stored: list[tuple[str, int]] | None = None
) -> Topics:
    return Topics(
        folder / "config" / "topics.json",
        Files(),
        clock=Clock(lambda: 1_000),
        options=TopicOptions(auto_create=auto_create),
        stored=Stored(stored if stored is not None else []),
    )


def test_send_creates_a_topic_with_as_many_queues_as_wanted_and_allowed(tmp_path: Path) -> None:
    topics = make(tmp_path)

    assert topics.for_send("few", queue_count=3).write_queue_nums == 3
    assert topics.for_send("many", queue_count=99).write_queue_nums == 8
    assert topics.for_send("few", queue_count=7).write_queue_nums == 3
    assert topics.find("few").perm == 6


def test_forbidden_creation_is_no_route_and_no_topic(tmp_path: Path) -> None:
    topics = make(tmp_path, auto_create=False)

    assert topics.get("TBW102") is None
    with pytest.raises(NotFound) as caught:
        topics.for_send("new")
    assert caught.value.details["what"] == "topic"


def test_retry_topic_is_made_even_then(tmp_path: Path) -> None:
    topics = make(tmp_path, auto_create=False)

    assert topics.for_send("%RETRY%g").read_queue_nums == 1


@pytest.mark.parametrize("name", ["", "with space", "a" * 128, "ümlaut", "new\nline"])
def test_bad_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidRequest):
        make(tmp_path).for_send(name)


def test_saved_topics_survive_in_rocketmqs_file(tmp_path: Path) -> None:
    topics = make(tmp_path)
    topics.put(
        TopicConfig(
            topic_name="orders",
            read_queue_nums=5,
            write_queue_nums=6,
            perm=4,
            attributes={"message.type": "DELAY"},
        )
    )
    was_saved = topics.is_saved
    topics.save()
    assert (was_saved, topics.is_saved) == (False, True)

    written = json.loads((tmp_path / "config" / "topics.json").read_bytes())
    again = make(tmp_path).find("orders")

    assert written["topicConfigTable"]["orders"]["readQueueNums"] == 5
    assert written["topicConfigTable"]["orders"]["attributes"] == {"message.type": "DELAY"}
    assert (again.read_queue_nums, again.write_queue_nums, again.perm) == (5, 6, 4)


def test_deleted_topic_is_gone_and_own_topics_stay(tmp_path: Path) -> None:
    topics = make(tmp_path)
    topics.for_send("orders")

    assert topics.delete("orders")
    assert topics.get("orders") is None
    assert not topics.delete("orders")
    with pytest.raises(InvalidRequest):
        topics.delete("TBW102")


def test_topic_with_messages_is_found_without_having_been_created(tmp_path: Path) -> None:
    stored = [("bulk", 0), ("bulk", 6), ("%RETRY%g", 0)]

    topics = make(tmp_path, auto_create=False, stored=stored)
    stored.append(("later", 1))

    assert topics.find("bulk").read_queue_nums == 7
    assert topics.find("%RETRY%g").read_queue_nums == 1
    assert topics.find("later").read_queue_nums == 4


def test_damaged_file_is_refused_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "config" / "topics.json"
    path.parent.mkdir()
    path.write_text("{")

    with pytest.raises(InvalidRequest, match=r"topics\.json"):
        make(tmp_path)


def test_only_the_new_topic_is_waited_for(tmp_path: Path) -> None:
    topics = make(tmp_path)
    topics.ensure("old", queue_count=1)
    topics.save()
    topics.ensure("new", queue_count=1)

    assert topics.has_saved("old")
    assert not topics.has_saved("new")
    topics.save()
    assert topics.has_saved("new")
