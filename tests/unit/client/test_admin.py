from dueline.client.admin import GroupFigures, QueuePlace, TopicFigures


def topic(**changes: int | None) -> TopicFigures:
    given = {"queue_count": 4, "message_count": 10, "pending_count": 1, "last_ms": 5} | changes
    return TopicFigures(topic="t", is_internal=False, **given)  # type: ignore[arg-type]


def place(broker: str, *, offset: int, end: int) -> QueuePlace:
    return QueuePlace(
        topic="t", broker=broker, queue_id=0, offset=offset, end=end, consumed_ms=None
    )


def test_what_brokers_say_of_a_topic_is_added_up() -> None:
    assert topic().plus(topic(last_ms=7)) == topic(
        queue_count=8, message_count=20, pending_count=2, last_ms=7
    )
    assert topic(last_ms=None).plus(topic(last_ms=None)).last_ms is None


def test_what_brokers_say_of_a_group_is_added_up() -> None:
    one = GroupFigures(group="g", clients=("c", "d"), places=(place("a", offset=3, end=5),))
    other = GroupFigures(group="g", clients=("d",), places=(place("b", offset=9, end=5),))

    both = one.plus(other)

    assert both.clients == ("c", "d")
    assert [each.lag for each in both.places] == [2, 0]
