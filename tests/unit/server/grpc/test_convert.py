"""Names with a namespace."""

from __future__ import annotations

import pytest

from dueline.server.grpc.convert import name_of, shown_name
from dueline.server.grpc.stubs import message_class


@pytest.mark.parametrize(
    ("namespace", "name", "full"),
    [
        ("", "orders", "orders"),
        ("ns1", "orders", "ns1%orders"),
        ("ns1", "ns1%orders", "ns1%orders"),
        ("ns1", "ns2%orders", "ns1%ns2%orders"),
        # As a 4.x client with this namespace names them.
        ("ns1", "%RETRY%billing", "%RETRY%ns1%billing"),
        ("ns1", "%DLQ%billing", "%DLQ%ns1%billing"),
        ("ns1", "%DLQ%ns1%billing", "%DLQ%ns1%billing"),
    ],
)
def test_namespace_is_part_of_the_full_name(namespace: str, name: str, full: str) -> None:
    assert name_of(message_class("Resource")(resource_namespace=namespace, name=name)) == full


def test_client_of_a_namespace_sees_names_without_it() -> None:
    assert shown_name("ns1%orders", "ns1") == "orders"
    assert shown_name("ns1%orders", "") == "ns1%orders"
    assert shown_name("orders", "ns1") == "orders"
