"""Messages as rows: the same values, in parts as well."""

from tests.unit.store.row_making import rows_of

from dueline.message import HOST_UNKNOWN, Message, pack_host
from dueline.message_rows import HOST_SIZE_MAX

MESSAGES = [
    Message(topic="t", body=b"one", properties={"UNIQ_KEY": "A", "KEYS": "k"}, flag=3, born_ms=5),
    Message(
        topic="u",
        body=b"",
        queue_id=2,
        properties={"UNIQ_KEY": "B"},
        sys_flag=1,
        born_host=pack_host("::1", 9),
        reconsume_times=4,
    ),
]


def test_rows_are_the_messages_they_were_made_of() -> None:
    rows = rows_of(MESSAGES)

    assert rows.messages() == MESSAGES
    assert len(rows) == 2
    assert rows.size_bytes == 3


def test_a_part_has_its_rows_alone() -> None:
    assert rows_of(MESSAGES).part(1, 2).messages() == MESSAGES[1:]


def test_hosts_have_rows_of_one_size() -> None:
    hosts, sizes = rows_of(MESSAGES).host_rows()

    assert hosts.shape == (2, HOST_SIZE_MAX)
    assert hosts[0].tobytes() == HOST_UNKNOWN + bytes(12)
    assert hosts[1].tobytes() == pack_host("::1", 9)
    assert sizes.tolist() == [len(HOST_UNKNOWN), HOST_SIZE_MAX]


def test_messages_of_a_batch_have_flags_of_their_own() -> None:
    batch = [
        Message(topic="t", body=b"", properties={"UNIQ_KEY": "A"}, flag=flag) for flag in (1, -2)
    ]

    rows = rows_of(batch, is_batch=True)

    assert [each.flag for each in rows.messages()] == [1, -2]
    assert len(rows.heads) == 1
