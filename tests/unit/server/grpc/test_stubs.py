"""Message classes made from the schema read and write protobuf's bytes."""

from __future__ import annotations

from google.protobuf import timestamp_pb2

from dueline.server.grpc.schema import ENUMS, MESSAGES
from dueline.server.grpc.stubs import build_pool, message_class


def test_a_field_has_its_number_and_kind_on_the_wire() -> None:
    resource = message_class("Resource")(resource_namespace="n", name="orders")

    assert resource.SerializeToString() == b"\x0a\x01n\x12\x06orders"


def test_a_map_is_a_repeated_pair() -> None:
    properties = message_class("Message")()
    properties.user_properties["k"] = "v"
    data = properties.SerializeToString()

    assert data.endswith(b"\x06\x0a\x01k\x12\x01v")
    again = message_class("Message").FromString(data)
    assert dict(again.user_properties) == {"k": "v"}


def test_what_is_optional_is_known_to_be_there() -> None:
    properties = message_class("SystemProperties")()
    assert not properties.HasField("tag")
    properties.tag = ""
    assert properties.HasField("tag")


def test_of_one_choice_there_is_one() -> None:
    command = message_class("TelemetryCommand")()
    assert command.WhichOneof("command") is None
    command.settings.client_type = 1
    command.recover_orphaned_transaction_command.transaction_id = "x"

    assert command.WhichOneof("command") == "recover_orphaned_transaction_command"
    assert not command.HasField("settings")


def test_times_are_protobufs_own() -> None:
    properties = message_class("SystemProperties")()
    properties.delivery_timestamp.FromMilliseconds(1_500)
    expected = timestamp_pb2.Timestamp(seconds=1, nanos=500_000_000).SerializeToString()

    assert expected in properties.SerializeToString()


def test_every_message_and_enum_is_built() -> None:
    pool = build_pool()
    names = [line.partition(": ")[0] for line in MESSAGES.splitlines() if ": " in line]

    assert len(names) > 30
    assert all(message_class(name).DESCRIPTOR.name == name for name in names)
    for name, values in ENUMS.items():
        found = pool.FindEnumTypeByName(f"apache.rocketmq.v2.{name}")
        assert len(found.values) == len(values)
