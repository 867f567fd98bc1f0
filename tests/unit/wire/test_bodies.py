"""Bodies of clients, as they were captured."""

import json
from typing import Any

import pytest
from tests.unit.wire.capture import ALL_FRAMES, JSON_FRAMES, Captured
from tests.unit.wire.codecs import decode_command

from dueline.wire import bodies
from dueline.wire.body import Body

ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:10911"},"brokerName":"broker-a",'
    b'"cluster":"DefaultCluster"}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a",'
    b'"perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
)
GO_HEARTBEAT = (
    b'{"clientID":"127.0.0.1@1","producerDataSet":[{"groupName":"PG"}],"consumerDataSet":[{'
    b'"groupName":"CG","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING",'
    b'"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":[{"classFilterMode":false,'
    b'"topic":"T","subString":"a || b","tagsSet":["a","b"],"codeSet":["97","98"],'
    b'"subVersion":1794769748848000000,"expressionType":"TAG"}],"unitMode":false}]}'
)


def _body_class(captured: Captured) -> type[Body] | None:
    command = decode_command(captured.frame)
    if command.code == 34:
        return bodies.Heartbeat
    if captured.body.startswith(b'{"brokerDatas"'):
        return bodies.RouteData
    if captured.body.startswith(b'{"consumerIdList"'):
        return bodies.ConsumerList
    return None


WITH_BODY = [(c, kind) for c in ALL_FRAMES if (kind := _body_class(c))]


@pytest.mark.parametrize(
    ("captured", "kind"), WITH_BODY, ids=[f"{kind.__name__}-{c.line}" for c, kind in WITH_BODY]
)
def test_captured_body_is_written_with_the_same_fields(
    captured: Captured, kind: type[Body]
) -> None:
    written = json.loads(kind.decode(captured.body).encode())

    expected = json.loads(captured.body)
    if kind is bodies.Heartbeat:
        # Two fields of 5.x, which a 4.x client does not send.
        expected |= {"heartbeatFingerprint": 0, "withoutSub": False}
        expected.setdefault("consumerDataSet", [])
        expected.setdefault("producerDataSet", [])
    assert _unordered(written) == _unordered(expected)


def test_captures_hold_all_three_kinds() -> None:
    assert {kind for _, kind in WITH_BODY} == {
        bodies.Heartbeat,
        bodies.RouteData,
        bodies.ConsumerList,
    }


def test_route_is_what_clients_read() -> None:
    assert ROUTE in [c.body for c in JSON_FRAMES]
    assert bodies.RouteData.decode(ROUTE) == bodies.RouteData(
        broker_datas=[
            bodies.BrokerData(
                broker_addrs={0: "127.0.0.1:10911"},
                broker_name="broker-a",
                cluster="DefaultCluster",
            )
        ],
        queue_datas=[
            bodies.QueueData(broker_name="broker-a", perm=6, read_queue_nums=4, write_queue_nums=4)
        ],
    )


def test_route_has_broker_addresses_in_the_form_that_go_cuts_by_hand() -> None:
    encoded = bodies.RouteData.decode(ROUTE).encode()

    assert b'"brokerAddrs":{"0":"127.0.0.1:10911"}' in encoded
    assert b" " not in encoded


def test_route_with_unquoted_broker_ids_is_read() -> None:
    assert bodies.RouteData.decode(ROUTE.replace(b'"0"', b"0")) == bodies.RouteData.decode(ROUTE)


def test_captured_heartbeat_is_typed() -> None:
    beats = [bodies.Heartbeat.decode(c.body) for c, kind in WITH_BODY if kind is bodies.Heartbeat]

    consumers = [data for beat in beats for data in beat.consumer_data_set]
    assert {data.group_name for data in consumers} == {"CG"}
    assert {s.topic for s in consumers[0].subscription_data_set} == {"TopicT", "%RETRY%CG"}
    assert consumers[0].message_model == "CLUSTERING"


def test_heartbeat_of_go_is_read() -> None:
    (consumer,) = bodies.Heartbeat.decode(GO_HEARTBEAT).consumer_data_set

    (subscription,) = consumer.subscription_data_set
    assert subscription.code_set == {97, 98}
    assert subscription.tags_set == {"a", "b"}
    assert subscription.sub_version == 1794769748848000000


def test_lock_request_and_result() -> None:
    queue = bodies.MessageQueue(broker_name="broker-a", queue_id=0, topic="T")
    request = bodies.LockRequest.decode(
        b'{"clientId":"c","consumerGroup":"g",'
        b'"mqSet":[{"brokerName":"broker-a","queueId":0,"topic":"T"}]}'
    )

    assert request == bodies.LockRequest(
        client_id="c", consumer_group="g", queues=frozenset({queue})
    )
    assert bodies.LockResult(queues=frozenset({queue})).encode() == (
        b'{"lockOKMQSet":[{"brokerName":"broker-a","queueId":0,"topic":"T"}]}'
    )


def test_batch_of_acknowledgements() -> None:
    decoded = bodies.AckBatch.decode(
        b'{"brokerName":"b","acks":[{"c":"g","t":"T","r":"0","so":5,"q":1,"rq":2,"pt":3,"it":4,'
        b'"b":"AQ=="}]}'
    )

    (ack,) = decoded.acks
    assert (ack.consumer_group, ack.topic, ack.start_offset, ack.queue_id) == ("g", "T", 5, 1)
    assert ack.bits == "AQ=="


def _unordered(value: Any) -> Any:
    """Sets travel as arrays in any order."""
    if isinstance(value, dict):
        return {key: _unordered(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(
            [_unordered(item) for item in value], key=lambda item: json.dumps(item, sort_keys=True)
        )
    return value
