"""Who is in a group, and when its clients have to be told."""

from __future__ import annotations

from dueline.broker.groups import CLIENT_SILENCE_MS_MAX, Consumption, Groups, Member, Subscription


class Watcher:
    def __init__(self) -> None:
        self.groups = Groups()
        self.told: list[str] = []
        self.groups.on_change(self.told.append)

    def beat(
        self,
        client_id: str,
        *subscriptions: Subscription,
        channel: object = None,
        now_ms: int = 0,
        group: str = "g",
    ) -> None:
        member = Member(client_id=client_id, channel=channel or client_id, seen_ms=now_ms)
        self.groups.consumer(group, member, Consumption(), subscriptions)


def tags(expression: str, version: int = 1, topic: str = "t") -> Subscription:
    return Subscription(topic=topic, expression=expression, version=version)


def test_new_clients_are_told_of_and_known_ones_are_not() -> None:
    watcher = Watcher()
    watcher.beat("b", tags("*"))
    watcher.beat("a", tags("*"))
    watcher.beat("a", tags("*"))

    group = watcher.groups.get("g")

    assert watcher.told == ["g", "g"]
    assert group is not None
    assert group.client_ids == ["a", "b"]


def test_newer_subscription_replaces_and_is_told() -> None:
    watcher = Watcher()
    watcher.beat("a", tags("x"))
    watcher.told.clear()

    watcher.beat("a", tags("y", version=2))
    watcher.beat("b", tags("x", version=1))

    group = watcher.groups.get("g")
    assert group is not None
    assert group.subscriptions["t"].expression == "y"
    assert watcher.told == ["g", "g"]  # the expression, and the second client


def test_topic_that_is_no_longer_listed_is_forgotten() -> None:
    watcher = Watcher()
    watcher.beat("a", tags("*"), tags("*", topic="u"))

    watcher.beat("a", tags("*", topic="u"))

    group = watcher.groups.get("g")
    assert group is not None
    assert set(group.subscriptions) == {"u"}


def test_short_heartbeat_keeps_the_subscriptions() -> None:
    watcher = Watcher()
    watcher.beat("a", tags("*"))

    watcher.groups.consumer("g", Member(client_id="a", channel="a"), Consumption(), None)

    group = watcher.groups.get("g")
    assert group is not None
    assert set(group.subscriptions) == {"t"}


def test_broken_connection_takes_its_clients_along() -> None:
    watcher = Watcher()
    watcher.beat("a", channel="one")
    watcher.beat("b", channel="two")
    watcher.groups.producer("p", Member(client_id="a", channel="one"))
    watcher.told.clear()

    watcher.groups.drop_channel("one")

    group = watcher.groups.get("g")
    assert group is not None
    assert group.client_ids == ["b"]
    assert watcher.groups.producers("p") == []
    assert watcher.told == ["g"]


def test_client_that_reconnected_is_not_dropped_with_its_old_connection() -> None:
    watcher = Watcher()
    watcher.beat("a", channel="old")
    watcher.beat("a", channel="new")

    watcher.groups.drop_channel("old")

    assert watcher.groups.member("g", "a") is not None


def test_leaving_is_told_once() -> None:
    watcher = Watcher()
    watcher.beat("a")
    watcher.beat("b")
    watcher.told.clear()

    watcher.groups.leave("a", consumer_group="g")
    watcher.groups.leave("a", consumer_group="g")

    assert watcher.told == ["g"]


def test_silent_clients_are_dropped_and_empty_groups_with_them() -> None:
    watcher = Watcher()
    watcher.beat("a", now_ms=0)
    watcher.beat("b", now_ms=50_000)

    watcher.groups.expire(CLIENT_SILENCE_MS_MAX + 1)
    group = watcher.groups.get("g")
    assert group is not None
    assert group.client_ids == ["b"]

    watcher.groups.expire(CLIENT_SILENCE_MS_MAX + 50_001)
    assert watcher.groups.get("g") is None


def test_groups_of_a_topic_and_clients_by_id() -> None:
    watcher = Watcher()
    watcher.beat("a", tags("*"))
    watcher.beat("b", tags("*", topic="u"), group="h")

    assert watcher.groups.consumer_groups_of("t") == ["g"]
    found = watcher.groups.find_client("b")
    assert found is not None
    assert found.channel == "b"
