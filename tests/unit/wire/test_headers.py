"""Headers of clients: every captured one is typed, and written again as it came."""

import pytest
from tests.unit.wire.capture import JSON_FRAMES, OF_BROKERS, Captured

from dueline.errors import InvalidRequest
from dueline.wire import headers
from dueline.wire.header import Header

BY_CODE: dict[int, type[Header]] = {
    11: headers.PullRequest,
    14: headers.QueryConsumerOffsetRequest,
    15: headers.UpdateConsumerOffsetRequest,
    35: headers.UnregisterClientRequest,
    36: headers.SendBackRequest,
    37: headers.EndTransactionRequest,
    38: headers.ConsumerGroupRequest,
    39: headers.CheckTransactionRequest,
    40: headers.ConsumerGroupRequest,
    105: headers.RouteRequest,
}
# A broker's name rides on most requests; who asks a broker knows whom.
IGNORED = {"bname"}
# What an absent optional field means is written out when it has a value of its own.
SPELLED_OUT = {"acceptStandardJsonOnly": "false"}

REQUESTS = [c for c in JSON_FRAMES if not c.fields["flag"] & 1]
SENDS = [c for c in REQUESTS if c.fields["code"] in (310, 320)]
OTHERS = [c for c in REQUESTS if c.fields["code"] not in (310, 320, 34, *OF_BROKERS)]

PROPERTIES = (
    "KEYS\x01key1 key2\x02UNIQ_KEY\x017F00000115AB5FFD2B274C351AF70000"
    "\x02WAIT\x01true\x02TAGS\x01TagA"
)
SHORT = {
    "a": "PG",
    "b": "TopicT",
    "c": "TBW102",
    "d": "4",
    "e": "0",
    "f": "0",
    "g": "1794769748727",
    "h": "0",
    "i": PROPERTIES,
    "j": "0",
    "k": "false",
    "m": "false",
    "n": "broker-a",
}
LONG = {
    "producerGroup": "PG",
    "topic": "TopicT",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "0",
    "sysFlag": "0",
    "bornTimestamp": "1794769748727",
    "flag": "0",
    "properties": PROPERTIES,
    "reconsumeTimes": "0",
    "unitMode": "false",
    "batch": "false",
    "bname": "broker-a",
}
SEND = headers.SendRequest(
    producer_group="PG",
    topic="TopicT",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=0,
    sys_flag=0,
    born_timestamp=1794769748727,
    flag=0,
    properties=PROPERTIES,
    reconsume_times=0,
    broker_name="broker-a",
)


@pytest.mark.parametrize("captured", OTHERS, ids=lambda c: f"{c.fields['code']}-{c.line}")
def test_captured_request_is_written_as_it_came(captured: Captured) -> None:
    ext = captured.fields.get("extFields", {})

    written = BY_CODE[captured.fields["code"]].decode(ext).encode()

    known = {name: value for name, value in ext.items() if name not in IGNORED}
    assert {k: v for k, v in written.items() if k in known or SPELLED_OUT.get(k) != v} == known


@pytest.mark.parametrize("captured", SENDS, ids=lambda c: str(c.line))
def test_captured_send_is_written_as_it_came(captured: Captured) -> None:
    ext = captured.fields["extFields"]

    assert headers.SendRequest.decode(ext).encode_short() == ext


@pytest.mark.parametrize("ext", [SHORT, LONG], ids=["short", "long"])
def test_send_is_the_same_with_long_and_short_names(ext: dict[str, str]) -> None:
    assert headers.SendRequest.decode(ext) == SEND


def test_send_is_written_with_long_or_short_names() -> None:
    assert SEND.encode() == LONG
    assert SEND.encode_short() == SHORT


def test_missing_field_of_a_send_has_the_name_that_was_sent() -> None:
    with pytest.raises(InvalidRequest, match="SendRequest: e: expected a value"):
        headers.SendRequest.decode({k: v for k, v in SHORT.items() if k != "e"})


def test_captured_send_answers_are_typed() -> None:
    found = [
        headers.SendResponse.decode(c.fields["extFields"])
        for c in JSON_FRAMES
        if "msgId" in c.fields.get("extFields", {}) and c.fields["flag"] == 1
    ]

    assert found[0] == headers.SendResponse(
        msg_id="7F00000100002A9F0000000000000000",
        queue_id=0,
        queue_offset=0,
        region="DefaultRegion",
        trace_on=True,
    )
    assert found[0].encode() == {
        "msgId": "7F00000100002A9F0000000000000000",
        "queueId": "0",
        "queueOffset": "0",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }
    assert any("," in answer.msg_id for answer in found), "a batch has several ids"


def test_captured_pull_answers_are_typed() -> None:
    ext = {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": "2",
        "minOffset": "0",
        "maxOffset": "2",
    }
    answers = [c.fields["extFields"] for c in JSON_FRAMES if c.fields["code"] == 19]

    assert ext in answers
    decoded = headers.PullResponse.decode(ext)
    assert (decoded.next_begin_offset, decoded.max_offset) == (2, 2)
    assert decoded.encode() == ext


def test_names_that_are_not_camel_case() -> None:
    query = headers.QueryMessageRequest.decode(
        {
            "topic": "T",
            "key": "k",
            "maxNum": "32",
            "beginTimestamp": "0",
            "endTimestamp": "9223372036854775807",
            "_UNIQUE_KEY_QUERY": "true",
        }
    )
    unregister = headers.UnregisterClientRequest.decode({"clientID": "c"})
    beat = headers.HeartbeatResponse(is_support_heart_beat_v2=True, is_sub_change=True)

    assert query.is_unique_key
    assert query.end_timestamp == (1 << 63) - 1
    assert unregister.client_id == "c"
    assert beat.encode() == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}


def test_pop_with_its_least_fields() -> None:
    ext = {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": "-1",
        "maxMsgNums": "32",
        "invisibleTime": "60000",
        "pollTime": "15000",
        "bornTime": "1794769748727",
        "initMode": "1",
    }

    decoded = headers.PopRequest.decode(ext)

    assert decoded.queue_id == -1
    assert decoded.encode() == {**ext, "order": "false"}
