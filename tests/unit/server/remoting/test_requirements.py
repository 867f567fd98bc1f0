"""What each code asks for: the topics and groups that its handler will touch, and no others."""

from __future__ import annotations

import json

import pytest

from dueline.broker.access import CLUSTER, Action, Resource
from dueline.errors import InvalidRequest
from dueline.server.remoting.requirements import (
    KNOWN_COUNT_MAX,
    KNOWN_SIZE_MAX,
    REQUIREMENTS,
    Needs,
)
from dueline.wire import Command, RequestCode

PUB, SUB, GET = Action.PUB, Action.SUB, Action.GET


def _needs(code: int, body: object = None, **ext: str) -> tuple[Action, set[str]]:
    data = b"" if body is None else json.dumps(body).encode()
    command = Command(code=code, opaque=1, ext=ext, body=data)
    actions, resources = REQUIREMENTS[code].needs(command)
    return actions, set(map(str, resources))


def test_a_send_takes_pub_on_its_topic_by_the_names_that_its_handler_reads() -> None:
    for code in (10, 310, 320):
        assert _needs(code, b="orders") == (PUB, {"Topic:orders"})
        assert _needs(code, topic="orders") == (PUB, {"Topic:orders"})
        # With both, the handler takes the short one; so does the requirement.
        assert _needs(code, b="orders", topic="mine") == (PUB, {"Topic:orders"})
        assert _needs(code, b="%RETRY%readers") == (SUB, {"Group:readers"})
        with pytest.raises(InvalidRequest):
            _needs(code)


def test_consuming_takes_sub_on_topic_and_group() -> None:
    for code in (11, 361, 200_050, 200_051, 200_053):
        assert _needs(code, topic="orders", consumerGroup="readers") == (
            SUB,
            {"Topic:orders", "Group:readers"},
        )
        assert _needs(code, topic="%RETRY%others", consumerGroup="readers") == (
            SUB,
            {"Group:others", "Group:readers"},
        )
        # An empty name is a name: only who may read every group has a right on it.
        assert _needs(code, topic="orders", consumerGroup="") == (SUB, {"Topic:orders", "Group:"})


def test_the_brokers_own_topics_take_rights_on_the_cluster() -> None:
    assert _needs(11, topic="RMQ_SYS_TRANS_HALF_TOPIC", consumerGroup="g")[1] == {
        str(CLUSTER),
        "Group:g",
    }


def test_bodies_name_groups_and_topics_too() -> None:
    beat = {
        "clientID": "c",
        "producerDataSet": [{"groupName": "senders"}],
        "consumerDataSet": [
            {
                "groupName": "readers",
                "subscriptionDataSet": [
                    {"topic": "orders", "subString": "*"},
                    {"topic": "%RETRY%readers", "subString": "*"},
                ],
            }
        ],
    }
    assert _needs(34, beat) == (SUB, {"Group:readers", "Topic:orders"})
    assert _needs(34, {"clientID": "c"}) == (SUB, set())
    lock = {
        "clientId": "c",
        "consumerGroup": "readers",
        "mqSet": [{"brokerName": "b", "queueId": 0, "topic": "orders"}],
    }
    for code in (41, 42):
        assert _needs(code, lock) == (SUB, {"Group:readers", "Topic:orders"})
    assert _needs(200, {"groupName": "readers"})[1] == {"Group:readers"}
    for code in (400, 401):
        body = {"topic": "orders", "consumerGroup": "readers", "clientId": "c", "mode": "POP"}
        assert _needs(code, body)[1] == {"Group:readers", "Topic:orders"}


def test_the_route_of_the_default_topic_is_for_everybody() -> None:
    routes = {name: Command(code=105, opaque=1, ext={"topic": name}) for name in ("TBW102", "a")}
    is_open = REQUIREMENTS[105].is_open
    assert is_open is not None
    assert is_open(routes["TBW102"])
    assert not is_open(routes["a"])
    assert REQUIREMENTS[310].is_open is None
    assert _needs(105, topic="orders") == (PUB | SUB | GET, {"Topic:orders"})
    assert _needs(105, topic="%RETRY%g") == (PUB | SUB | GET, {"Group:g"})


def test_names_that_may_be_empty_name_nothing_then() -> None:
    assert _needs(35, clientID="c", consumerGroup="", producerGroup="p") == (SUB, set())
    assert _needs(208, consumerGroup="readers", topic="") == (GET, {"Group:readers"})


def test_what_has_no_topic_and_no_group_takes_rights_on_the_cluster() -> None:
    for code in (21, 26, 28, 43, 45, 100, 102, 201, 205, 206, 317, 319, 327, *range(3001, 3011)):
        actions, resources = _needs(code)
        assert resources == {str(CLUSTER)}
        assert actions & (PUB | SUB) == Action(0), "those are the pipeline's"


def test_every_change_is_noted() -> None:
    changes = {code for code, each in REQUIREMENTS.items() if each.is_change}

    assert changes == {
        *(RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.DELETE_TOPIC_IN_BROKER, 216),
        *(200, 207, 222, 370, 401),
        *(100, 102, 205, 327),
        *(3001, 3002, 3003, 3006, 3007, 3008),
        *(30_001, 30_002),
    }


def test_resources_are_values_that_a_dictionary_takes() -> None:
    assert hash(Resource.parse("Topic:orders")) == hash(Resource.parse("topic:orders"))


def test_what_is_remembered_of_names_is_bounded() -> None:
    pull = REQUIREMENTS[RequestCode.PULL_MESSAGE]

    def needs(topic: str) -> Needs:
        ext = {"topic": topic, "consumerGroup": "g"}
        return pull.needs(Command(code=RequestCode.PULL_MESSAGE, opaque=1, ext=ext))

    first = needs("a")
    assert needs("a") is first
    long = needs("x" * KNOWN_SIZE_MAX)
    assert needs("x" * KNOWN_SIZE_MAX) == long
    assert needs("x" * KNOWN_SIZE_MAX) is not long

    for number in range(KNOWN_COUNT_MAX):
        needs(f"t{number}")

    again = needs("a")
    assert again == first
    assert again is not first  # all were forgotten when there were too many
