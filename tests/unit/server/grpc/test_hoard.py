"""Who keeps the most makes room."""

from __future__ import annotations

from dueline.server.grpc.hoard import Hoard
from dueline.server.grpc.peer import Peer


class Connection:
    def __init__(self, host: str) -> None:
        self.peer = Peer(host=host, port=1)
        self.is_ended = False

    def abort(self) -> None:
        self.is_ended = True


def test_the_largest_connection_of_the_largest_address_makes_room() -> None:
    hoard = Hoard(100)
    greedy = [Connection("10.0.0.1") for _ in range(4)]
    modest = Connection("10.0.0.2")
    for number, each in enumerate(greedy):
        hoard.keeps(each, 15 + number)
    hoard.keeps(modest, 30)
    assert hoard.size_bytes == 96

    hoard.keeps(modest, 40)

    assert [each.is_ended for each in greedy] == [False, False, False, True]
    assert not modest.is_ended
    assert (hoard.size_bytes, hoard.ended_count) == (88, 1)


def test_what_is_given_back_is_room_again() -> None:
    hoard, first, second = Hoard(100), Connection("a"), Connection("b")
    hoard.keeps(first, 90)
    hoard.keeps(first, 0)
    hoard.keeps(second, 90)

    assert (hoard.size_bytes, first.is_ended, second.is_ended) == (90, False, False)
    hoard.keeps(second, 101)
    assert second.is_ended
    assert hoard.size_bytes == 0
