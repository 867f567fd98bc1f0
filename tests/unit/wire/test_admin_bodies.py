"""Bodies of tools and of broker registration."""

import pytest
from tests.unit.wire.codecs import assert_codec

from dueline.wire import admin_bodies as bodies
from dueline.wire.bodies import BrokerData, MessageQueue, SubscriptionData
from dueline.wire.body import Body

QUEUE = MessageQueue(broker_name="broker-a", queue_id=0, topic="T")
KEY = b'{"brokerName":"broker-a","queueId":0,"topic":"T"}'


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (
            b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{"0":"127.0.0.1:10911"},'
            b'"brokerName":"broker-a","cluster":"DefaultCluster"}},'
            b'"clusterAddrTable":{"DefaultCluster":["broker-a"]}}',
            bodies.ClusterInfo(
                broker_addr_table={
                    "broker-a": BrokerData(
                        broker_addrs={0: "127.0.0.1:10911"},
                        broker_name="broker-a",
                        cluster="DefaultCluster",
                    )
                },
                cluster_addr_table={"DefaultCluster": ["broker-a"]},
            ),
        ),
        (
            b'{"consumeTps":12.0,"offsetTable":{' + KEY + b":"
            b'{"brokerOffset":5,"consumerOffset":3,"lastTimestamp":1794769748727}}}',
            bodies.ConsumeStats(
                consume_tps=12.0,
                offset_table={
                    QUEUE: bodies.QueueProgress(
                        broker_offset=5, consumer_offset=3, last_timestamp=1794769748727
                    )
                },
            ),
        ),
        (
            b'{"offsetTable":{' + KEY + b":"
            b'{"minOffset":0,"maxOffset":5,"lastUpdateTimestamp":1794769748727}}}',
            bodies.TopicStats(
                offset_table={
                    QUEUE: bodies.OffsetSpan(
                        min_offset=0, max_offset=5, last_update_timestamp=1794769748727
                    )
                }
            ),
        ),
        (b'{"offsetTable":{' + KEY + b":7}}", bodies.QueueOffsets(offset_table={QUEUE: 7})),
        (b'{"topicList":["T"]}', bodies.TopicList(topic_list=["T"])),
        (b'{"groupList":["g"]}', bodies.GroupList(group_list=["g"])),
        (
            b'{"table":{"scheduleMessageOffset_1":"2,5"}}',
            bodies.KeyValues(table={"scheduleMessageOffset_1": "2,5"}),
        ),
        (
            b'{"connectionSet":[{"clientId":"c","clientAddr":"127.0.0.1:5","language":"GO",'
            b'"version":317}]}',
            bodies.ProducerConnections(
                connection_set=[
                    bodies.ConnectedClient(
                        client_id="c", client_addr="127.0.0.1:5", language="GO", version=317
                    )
                ]
            ),
        ),
        (b'{"offsetTable":{"3":12}}', bodies.DelayOffsets(offset_table={3: 12})),
        (
            b'{"offsetTable":{"T@g":{"0":5,"1":6}}}',
            bodies.ConsumerOffsetsBody(offset_table={"T@g": {0: 5, 1: 6}}),
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Body) else "",
)
def test_body_is_these_bytes(data: bytes, value: Body) -> None:
    assert_codec(data, value, decode=type(value).decode, encode=lambda body: body.encode())


def test_group_configuration_keeps_what_it_does_not_know() -> None:
    decoded = bodies.GroupConfigBody.decode(
        b'{"groupName":"G","retryMaxTimes":3,"groupRetryPolicy":{"type":"CUSTOMIZED"},'
        b'"subscriptionDataSet":null}'
    )

    assert decoded.retry_max_times == 3
    assert decoded.group_retry_policy == {"type": "CUSTOMIZED"}
    assert bodies.GroupConfigBody.decode(decoded.encode()) == decoded


def test_consumer_connections_list_subscriptions_by_topic() -> None:
    subscription = SubscriptionData(topic="T", sub_string="*")
    value = bodies.ConsumerConnections(
        subscription_table={"T": subscription}, consume_type="CONSUME_PASSIVELY"
    )

    assert bodies.ConsumerConnections.decode(value.encode()) == value
