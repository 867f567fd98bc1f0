"""Our own codec as a client: a real server says what the typed headers and bodies expect."""

from __future__ import annotations

import pytest
from tests.interop.remoting import Connection
from tests.interop.servers import Server
from tests.waiting import wait_until

from dueline.clock import system_time_ms
from dueline.message import encode_properties
from dueline.wire import Command, RequestCode, ResponseCode, Serialization
from dueline.wire import admin_bodies as admin
from dueline.wire.admin_headers import ConsumeStatsRequest, TopicRequest
from dueline.wire.batch import BatchMessage, encode_batch
from dueline.wire.bodies import MessageQueue
from dueline.wire.codes import PullFlag
from dueline.wire.headers import (
    OffsetResponse,
    PullRequest,
    PullResponse,
    QueryConsumerOffsetRequest,
    QueueRequest,
    SearchOffsetRequest,
    SendRequest,
    SendResponse,
    UpdateConsumerOffsetRequest,
)


@pytest.fixture(params=Serialization, ids=lambda kind: kind.name)
def serialization(request: pytest.FixtureRequest) -> Serialization:
    kind: Serialization = request.param
    return kind


def send(connection: Connection, topic: str, **changes: object) -> SendResponse:
    """Send one message with one-letter names, or whatever `changes` says."""
    code = changes.pop("code", RequestCode.SEND_MESSAGE_V2)
    body = changes.pop("body", b"hello")
    fields: dict[str, object] = {
        "producer_group": "codec",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": system_time_ms(),
        "flag": 0,
        "properties": encode_properties({"TAGS": "a", "WAIT": "true"}).decode(),
    }
    request = SendRequest(**{**fields, **changes})  # type: ignore[arg-type]
    ext = request.encode() if code == RequestCode.SEND_MESSAGE else request.encode_short()
    assert isinstance(code, int)
    assert isinstance(body, bytes)
    answer = connection.call(code, ext, body)
    assert answer.code == ResponseCode.SUCCESS, answer
    assert answer.is_response
    return SendResponse.decode(answer.ext)


def test_send_and_pull(
    server: Server, serialization: Serialization, topic: str, group: str
) -> None:
    with Connection(server.broker, serialization=serialization) as connection:
        sent = [
            send(connection, topic, code=RequestCode.SEND_MESSAGE),
            send(connection, topic, code=RequestCode.SEND_MESSAGE_V2),
        ]
        pull = PullRequest(
            consumer_group=group,
            topic=topic,
            queue_id=0,
            queue_offset=0,
            max_msg_nums=32,
            sys_flag=PullFlag.SUBSCRIPTION | PullFlag.SUSPEND,
            commit_offset=0,
            suspend_timeout_millis=5_000,
            sub_version=0,
            subscription="*",
            expression_type="TAG",
        )
        answer = connection.call(RequestCode.PULL_MESSAGE, pull.encode())

    header = PullResponse.decode(answer.ext)
    assert [answer.queue_offset for answer in sent] == [0, 1]
    assert answer.code == ResponseCode.SUCCESS
    assert (header.min_offset, header.next_begin_offset, header.max_offset) == (0, 2, 2)
    assert answer.body.count(b"hello") == 2


def test_batch_and_offsets(
    server: Server, serialization: Serialization, topic: str, group: str
) -> None:
    batch = encode_batch([BatchMessage(body=f"b{i}".encode()) for i in range(3)])
    queue = QueueRequest(topic=topic, queue_id=0).encode()
    update = UpdateConsumerOffsetRequest(
        consumer_group=group, topic=topic, queue_id=0, commit_offset=2
    )
    query = QueryConsumerOffsetRequest(consumer_group=group, topic=topic, queue_id=0)
    search = SearchOffsetRequest(topic=topic, queue_id=0, timestamp=0)
    with Connection(server.broker, serialization=serialization) as connection:
        _create_group(connection, group)

        answer = send(
            connection, topic, code=RequestCode.SEND_BATCH_MESSAGE, body=batch, batch=True
        )
        updated = connection.call(RequestCode.UPDATE_CONSUMER_OFFSET, update.encode())

        def offset(code: RequestCode, ext: dict[str, str]) -> int:
            return OffsetResponse.decode(connection.call(code, ext).ext).offset

        wait_until(lambda: offset(RequestCode.GET_MAX_OFFSET, queue) == 3, what="the queue's end")
        assert len(answer.msg_id.split(",")) == 3
        assert updated.code == ResponseCode.SUCCESS
        assert offset(RequestCode.GET_MIN_OFFSET, queue) == 0
        assert offset(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search.encode()) == 0
        assert offset(RequestCode.QUERY_CONSUMER_OFFSET, query.encode()) == 2


def test_tables_of_the_tools(server: Server, topic: str, group: str) -> None:
    with Connection(server.broker) as connection:
        _create_group(connection, group)
        send(connection, topic)

        topics = admin.TopicConfigs.decode(_body(connection, RequestCode.GET_ALL_TOPIC_CONFIG))
        groups = admin.GroupConfigs.decode(
            _body(connection, RequestCode.GET_ALL_SUBSCRIPTION_GROUP_CONFIG)
        )
        # A 4.x broker has no statistics in its first second, and says so with an error.
        answer = wait_until(
            lambda: _answer_if_good(connection, RequestCode.GET_BROKER_RUNTIME_INFO),
            what="running statistics",
        )
        running = admin.KeyValues.decode(answer.body)
        stats = admin.TopicStats.decode(
            _body(connection, RequestCode.GET_TOPIC_STATS_INFO, TopicRequest(topic=topic).encode())
        )

    assert topics.topic_config_table[topic].write_queue_nums == 4
    assert groups.subscription_group_table[group].retry_max_times == 7
    assert "putTps" in running.table
    assert {queue.queue_id for queue in stats.offset_table} == {0, 1, 2, 3}
    assert {queue.topic for queue in stats.offset_table} == {topic}


def test_progress_of_a_group_is_keyed_by_queue(server: Server, topic: str, group: str) -> None:
    update = UpdateConsumerOffsetRequest(
        consumer_group=group, topic=topic, queue_id=0, commit_offset=1
    )
    with Connection(server.broker) as connection:
        _create_group(connection, group)
        send(connection, topic)
        send(connection, topic)
        connection.call(RequestCode.UPDATE_CONSUMER_OFFSET, update.encode())

        def progress() -> admin.QueueProgress | None:
            body = _body(
                connection,
                RequestCode.GET_CONSUME_STATS,
                ConsumeStatsRequest(consumer_group=group, topic=topic).encode(),
            )
            table = admin.ConsumeStats.decode(body).offset_table
            found = {queue: row for queue, row in table.items() if queue.queue_id == 0}
            assert {
                MessageQueue(broker_name=q.broker_name, queue_id=0, topic=topic) for q in found
            } == (set(found))
            (row,) = found.values()
            return row if row.broker_offset == 2 else None

        row = wait_until(progress, what="both messages in the queue's progress")

    assert row.consumer_offset == 1


def test_cluster_names_the_broker(server: Server) -> None:
    with Connection(server.name_server) as connection:
        info = admin.ClusterInfo.decode(_body(connection, RequestCode.GET_BROKER_CLUSTER_INFO))

    (broker,) = info.broker_addr_table.values()
    assert broker.broker_addrs == {0: server.broker}
    assert info.cluster_addr_table == {broker.cluster: [broker.broker_name]}


def test_unknown_request_is_answered_so(server: Server, serialization: Serialization) -> None:
    # Of a broker: Apache's 4.x name server does not answer at all.
    with Connection(server.broker, serialization=serialization) as connection:
        answer = connection.call(12_345)

    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_unknown_topic_has_no_route(server: Server, group: str) -> None:
    assert server.find_route(f"no-{group}") is None


def _create_group(connection: Connection, group: str) -> None:
    config = admin.GroupConfigBody(group_name=group, retry_max_times=7)
    answer = connection.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTION_GROUP, body=config.encode())
    assert answer.code == ResponseCode.SUCCESS, answer


def _answer_if_good(connection: Connection, code: int) -> Command | None:
    answer = connection.call(code)
    return answer if answer.code == ResponseCode.SUCCESS else None


def _body(connection: Connection, code: int, ext: dict[str, str] | None = None) -> bytes:
    answer = connection.call(code, ext)
    assert answer.code == ResponseCode.SUCCESS, answer
    return answer.body
