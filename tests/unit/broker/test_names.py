"""Names that clients know by heart."""

import pytest

from dueline.broker import names


def test_a_groups_topics_are_named_after_it() -> None:
    assert names.retry_topic("billing") == "%RETRY%billing"
    assert names.dead_topic("billing") == "%DLQ%billing"


@pytest.mark.parametrize(
    ("topic", "group"),
    [("%RETRY%billing", "billing"), ("%RETRY%", ""), ("%DLQ%billing", None), ("billing", None)],
)
def test_a_retry_topic_tells_its_group(topic: str, group: str | None) -> None:
    assert names.group_of_retry(topic) == group


@pytest.mark.parametrize(
    ("topic", "is_system"),
    [("TBW102", True), ("SCHEDULE_TOPIC_XXXX", True), ("orders", False), ("%RETRY%g", False)],
)
def test_tools_change_no_topic_of_the_broker(topic: str, is_system: bool) -> None:
    assert names.is_system_topic(topic) == is_system


@pytest.mark.parametrize(
    ("group", "is_system"), [("TOOLS_CONSUMER", True), ("CID_RMQ_SYS_TRANS", True), ("g", False)]
)
def test_rocketmqs_own_groups_are_known(group: str, is_system: bool) -> None:
    assert names.is_system_group(group) == is_system
