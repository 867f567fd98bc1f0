"""Messages as values: names, properties, hashes, hosts and ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dueline.errors import InvalidRequest, LimitExceeded
from dueline.message import (
    Message,
    UniqueIds,
    check_topic,
    decode_properties,
    encode_properties,
    format_host,
    message_id,
    new_message,
    pack_host,
    parse_message_id,
    string_hash,
    tags_code,
)

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=20)


def agree(properties: dict[str, str], data: bytes) -> None:
    assert encode_properties(properties) == data
    assert decode_properties(data) == properties


def test_properties_have_their_stored_form() -> None:
    agree({}, b"")
    agree({"KEYS": "k1 k2"}, b"KEYS\x01k1 k2")
    agree({"KEYS": "k1", "TAGS": "ä"}, b"KEYS\x01k1\x02TAGS\x01\xc3\xa4")


@given(st.dictionaries(TEXT, TEXT, max_size=6))
def test_properties_are_read_as_they_were(properties: dict[str, str]) -> None:
    assert decode_properties(encode_properties(properties)) == properties


@pytest.mark.parametrize(
    ("data", "properties"),
    [
        (b"a\x011\x02", {"a": "1"}),
        (b"\x02a\x011\x02\x02b\x012", {"a": "1", "b": "2"}),
        (b"a\x011\x012", {"a": "1\x012"}),
        (b"a\x01\x02b\x012", {"b": "2"}),
        (b"\x011\x02b\x012", {"b": "2"}),
        (b"no separator\x02b\x012", {"b": "2"}),
    ],
)
def test_sloppy_properties_are_read_as_rocketmq_does(
    data: bytes, properties: dict[str, str]
) -> None:
    assert decode_properties(data) == properties


def test_bytes_that_are_not_utf8_survive() -> None:
    data = b"a\x01\xff\xfe"

    assert encode_properties(decode_properties(data)) == data


@pytest.mark.parametrize(
    "properties",
    [
        {"a\x01": "b"},
        {"a": "b\x01"},
        {"a\x02": "b"},
        {"a": "b\x02c\x01d"},
        {"": "b"},
        {"": "b", "c": "d"},
        {"a": "\ud800"},
        {"a": "x" * 32_767},
    ],
)
def test_properties_that_cannot_be_stored_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        encode_properties(properties)

    assert caught.value.field == "properties"


def test_largest_properties_are_stored() -> None:
    assert len(encode_properties({"a": "x" * (32_767 - 2)})) == 32_767


# Values that Java's String.hashCode gives.
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2598919),
        ("d", 100),
        ("hello", 99162322),
        ("hello world", 1794106052),
        ("polygenelubricants", -2147483648),
        ("Aa", 2112),
        ("BB", 2112),
        ("ü", 252),
        ("中文", 646394),
        ("😀", 1772899),
    ],
)
def test_string_hash_is_javas(text: str, value: int) -> None:
    assert string_hash(text) == value


def test_tags_code_is_the_tags_hash() -> None:
    assert tags_code({"TAGS": "TagA"}) == 2598919
    assert tags_code({"KEYS": "TagA"}) == 0
    assert tags_code({"TAGS": ""}) == 0


@pytest.mark.parametrize("topic", ["a", "%RETRY%g", "A|b", "x_-9", "t" * 127])
def test_topic_names_of_rocketmq_are_accepted(topic: str) -> None:
    check_topic(topic)


@pytest.mark.parametrize(
    "topic", ["", "t" * 128, "a b", "a/b", "..", "ü", "a\n", "a.b", "DUELINE_SYS_CONTROL"]
)
def test_other_topic_names_are_refused(topic: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_topic(topic)

    assert caught.value.field == "topic"


@pytest.mark.parametrize("queue_id", [-1, 65_536])
def test_queue_ids_have_bounds(queue_id: int) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Message(topic="t", body=b"", queue_id=queue_id).check()

    assert (caught.value.field, caught.value.found) == ("queue_id", queue_id)


def test_body_has_a_bound() -> None:
    Message(topic="t", body=b"12345").check(body_size_max=5)

    with pytest.raises(LimitExceeded) as caught:
        Message(topic="t", body=b"123456").check(body_size_max=5)

    assert (caught.value.limit, caught.value.found) == (5, 6)


def test_keys_are_words() -> None:
    message = Message(topic="t", body=b"", properties={"KEYS": "a  b\tc", "UNIQ_KEY": "id"})

    assert message.keys == ["a", "b\tc"], "only spaces separate, as in RocketMQ"
    assert message.unique_id == "id"
    assert Message(topic="t", body=b"").keys == []
    assert Message(topic="t", body=b"").unique_id is None


@pytest.mark.parametrize(
    ("address", "port", "packed", "shown"),
    [
        ("127.0.0.1", 10911, "7f00000100002a9f", "127.0.0.1:10911"),
        ("255.255.255.255", 0, "ffffffff00000000", "255.255.255.255:0"),
        ("::1", 1, "00000000000000000000000000000001" + "00000001", "[::1]:1"),
    ],
)
def test_hosts_are_packed(address: str, port: int, packed: str, shown: str) -> None:
    assert pack_host(address, port).hex() == packed
    assert format_host(bytes.fromhex(packed)) == shown


def test_host_names_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="IPv4 or IPv6"):
        pack_host("localhost", 1)


def test_offset_id_is_rocketmqs() -> None:
    host = pack_host("127.0.0.1", 10911)

    assert message_id(host, 197) == "7F00000100002A9F00000000000000C5"
    assert parse_message_id("7F00000100002A9F00000000000000C5") == (host, 197)


def test_offset_id_with_a_wide_host() -> None:
    host = pack_host("2001:db8::1", 10911)

    assert len(message_id(host, 5)) == 56
    assert parse_message_id(message_id(host, 5)) == (host, 5)


@pytest.mark.parametrize("text", ["", "00", "x" * 32, "0" * 33, "0" * 31, "0 " * 16, "0" * 64])
def test_other_offset_ids_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="offset id"):
        parse_message_id(text)


def test_unique_ids_are_unique_and_in_rocketmqs_shape() -> None:
    ids = UniqueIds(host=pack_host("10.0.0.7", 1), start_ms=1_700_000_000_000)

    made = [ids.next() for _ in range(100)]
    first = ids.take(3)

    assert len(set(made)) == 100
    assert all(len(one) == 32 and one.startswith("0A000007") for one in made)
    assert int(made[-1][20:], 16) + 1 == first
    assert int(ids.next()[20:], 16) == first + 3


def test_unique_ids_wrap_around_at_48_bits() -> None:
    ids = UniqueIds(host=pack_host("10.0.0.7", 1), start_ms=0xFFFFFFFF)

    ids.take(1 << 16)

    assert ids.next().endswith("0" * 12)


def test_message_made_the_quick_way_is_the_same_message() -> None:
    properties = {"KEYS": "a"}
    host = pack_host("10.0.0.7", 1)

    made = new_message("t", b"x", 3, properties, 1, 2, 5, host, 7)

    assert made == Message(
        topic="t",
        body=b"x",
        queue_id=3,
        properties=properties,
        flag=1,
        sys_flag=2,
        born_ms=5,
        born_host=host,
        reconsume_times=7,
    )
    assert new_message("t", b"x", 0, {}, 0, 0, 5, host).reconsume_times == 0
