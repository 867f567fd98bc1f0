from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.local import outgoing, running, send, small_config

from dueline.broker.dead_letters import DeadLetters
from dueline.errors import NotFound
from dueline.server.process import BrokerProcess


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running(small_config(tmp_path)) as broker:
        broker.broker.consumer_groups.ensure("billing")
        yield broker


@pytest.fixture
def dead_letters(broker: BrokerProcess) -> DeadLetters:
    return broker.broker.dead_letters


def bury(broker: BrokerProcess, *bodies: str) -> None:
    for body in bodies:
        letter = outgoing(
            body, topic="%DLQ%billing", DLQ_ORIGIN_TOPIC="orders", KEYS=body, colour="red"
        )
        send(broker, letter)


def test_a_group_without_dead_letters_has_an_empty_list(dead_letters: DeadLetters) -> None:
    found = dead_letters.newest("billing", before=None, count_max=5)

    assert (found.letters, found.next) == ([], None)


def test_the_newest_come_first_and_the_next_page_is_before_them(
    broker: BrokerProcess, dead_letters: DeadLetters
) -> None:
    bury(broker, "a", "b", "c")

    first = dead_letters.newest("billing", before=None, count_max=2)
    second = dead_letters.newest("billing", before=first.next, count_max=2)

    assert [each.body for each in first.letters] == [b"c", b"b"]
    assert [(each.body, each.topic) for each in second.letters] == [(b"a", "orders")]
    assert second.next is None


def test_a_letter_comes_again_for_its_group_or_as_a_new_message(
    broker: BrokerProcess, dead_letters: DeadLetters
) -> None:
    bury(broker, "a")

    retry = dead_letters.again("billing", 0, is_to_topic=False)
    new = dead_letters.again("billing", 0, is_to_topic=True)

    assert (retry.topic, retry.properties["RETRY_TOPIC"]) == ("%RETRY%billing", "orders")
    assert retry.reconsume_times == 1
    assert (new.topic, new.body) == ("orders", b"a")
    assert dict(new.properties) == {"KEYS": "a", "colour": "red"}


def test_what_is_not_there_is_not_sent_again(dead_letters: DeadLetters) -> None:
    for group, offset in (("billing", 0), ("billing", -1), ("nobody", 0)):
        with pytest.raises(NotFound):
            dead_letters.again(group, offset, is_to_topic=False)
