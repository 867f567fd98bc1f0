from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.server.local import outgoing, running, send, small_config

from dueline.broker.directory import page_of
from dueline.errors import NotFound
from dueline.server.process import BrokerProcess


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running(small_config(tmp_path)) as broker:
        yield broker


@given(st.sets(st.text("abc", min_size=1, max_size=3)), st.integers(1, 5))
def test_pages_together_are_the_list(names: set[str], count_max: int) -> None:
    ordered, seen, after = sorted(names), list[str](), ""
    for _ in range(len(names) + 1):
        page = page_of(ordered, after=after, count_max=count_max)
        assert len(page.names) <= count_max
        seen += page.names
        if page.next is None:
            break
        after = page.next

    assert seen == ordered


def test_topics_are_listed_with_what_they_hold(broker: BrokerProcess) -> None:
    send(broker, outgoing("a", topic="now"), outgoing("b", topic="later", TIMER_DELAY_MS="900000"))
    directory = broker.broker.directory

    now, later = directory.topic("now"), directory.topic("later")

    assert directory.topic_names() == ["later", "now"]
    assert directory.topic_names(contains="no") == ["now"]
    assert "TBW102" in directory.topic_names(is_internal=True)
    assert (now.message_count, now.pending_count, now.last_ms is not None) == (1, 0, True)
    assert (later.message_count, later.pending_count, later.last_ms) == (0, 1, None)
    with pytest.raises(NotFound, match="nothing"):
        directory.topic("nothing")


def test_groups_are_listed_without_the_brokers_own(broker: BrokerProcess) -> None:
    send(broker, outgoing("a"), outgoing("b"))
    for name in ("billing", "shipping"):
        broker.broker.consumer_groups.ensure(name)
    broker.broker.offsets.set("billing", "orders", {0: 1})
    directory = broker.broker.directory

    billing = directory.group("billing")

    assert directory.group_names() == ["billing", "shipping"]
    assert directory.group_names(contains="ship") == ["shipping"]
    assert [(each.topic, each.lag) for each in billing.topics] == [("orders", 1)]
    assert (billing.clients, billing.dead_letter_count) == ((), 0)
    for name in ("nobody", "CID_RMQ_SYS_TRANS"):
        with pytest.raises(NotFound):
            directory.group(name)
