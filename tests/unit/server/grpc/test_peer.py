"""The other end of a connection."""

from __future__ import annotations

import pytest

from dueline.errors import LimitExceeded
from dueline.message import HOST_UNKNOWN
from dueline.server.grpc.peer import Peer
from dueline.server.shares import Shares


def test_an_address_is_packed_if_it_is_one() -> None:
    assert Peer(host="10.1.2.3", port=258).packed == bytes([10, 1, 2, 3, 0, 0, 1, 2])
    assert Peer(host="a name", port=1).packed == HOST_UNKNOWN


def test_a_share_is_that_of_the_connection() -> None:
    shares, peer = Shares("calls", 1), Peer(host="10.1.2.3", port=1)
    with peer.take(shares), pytest.raises(LimitExceeded):
        peer.take(shares)
    peer.take(shares).leave()


def test_neighbours_in_a_network_of_one_customer_count_as_one() -> None:
    assert Peer(host="2001:db8::1", port=1).key == Peer(host="2001:db8::2", port=2).key
    assert Peer(host="10.0.0.1", port=1).key != Peer(host="10.0.0.2", port=1).key
