"""When a writer waits for more: pure arithmetic, so time is a number here."""

from dueline.server.gathering import WAIT_S_MAX, Gathering

SLOW_S = 0.001


def after(*writes: tuple[int, float]) -> Gathering:
    gathering = Gathering()
    for under_way, took_s in writes:
        gathering.wrote(under_way, took_s)
    return gathering


def test_before_the_first_write_nobody_waits() -> None:
    assert Gathering().plan() == (0, 0.0)


def test_most_of_those_that_were_under_way_are_waited_for() -> None:
    wanted, wait_s = after(*[(64, SLOW_S)] * 50).plan()

    assert 48 <= wanted < 64
    assert SLOW_S <= wait_s <= 2 * SLOW_S


def test_a_single_sender_is_never_waited_for() -> None:
    wanted, _ = after(*[(1, SLOW_S)] * 50).plan()

    assert wanted <= 1  # which is there when a plan is asked for


def test_two_senders_share_a_write() -> None:
    wanted, _ = after(*[(2, SLOW_S)] * 50).plan()

    assert wanted == 2


def test_where_writes_take_no_time_nobody_waits() -> None:
    assert after(*[(64, 0.00001)] * 50).plan() == (0, 0.0)


def test_a_wait_is_bounded_however_slow_the_disk() -> None:
    _, wait_s = after(*[(64, 3.0)] * 50).plan()

    assert wait_s == WAIT_S_MAX


def test_senders_that_have_gone_are_forgotten() -> None:
    gathering = after(*[(1_000, SLOW_S)] * 50, *[(2, SLOW_S)] * 80)

    assert gathering.plan()[0] == 2


def waits_of(gathering: Gathering, groups: int, come: int) -> int:
    """How many of so many groups are waited for, if so many messages come each time."""
    count = 0
    for _ in range(groups):
        _, wait_s = gathering.plan()
        if wait_s > 0:
            count += 1
            gathering.waited(come)
        gathering.wrote(64, SLOW_S)
    return count


def test_waits_in_vain_become_rare_and_help_brings_them_back() -> None:
    gathering = after(*[(64, SLOW_S)] * 50)

    in_vain = waits_of(gathering, 630, come=1)
    first_again = waits_of(gathering, 64, come=64)
    with_help = waits_of(gathering, 100, come=64)

    assert in_vain <= 15  # after the first few, one in 64
    assert first_again >= 1
    assert with_help == 100


QUICK_S = 0.0002
SIZE_BYTES = 1_000


def test_a_few_that_are_all_that_is_under_way_are_left_to_their_sender() -> None:
    gathering = after(*[(8, QUICK_S)] * 50)

    assert gathering.leaves_to_sender(8, SIZE_BYTES)
    assert not gathering.leaves_to_sender(7, SIZE_BYTES)  # the eighth is on its way


def test_nothing_is_left_to_senders_before_it_is_known_how_quick_the_disk_is() -> None:
    assert not Gathering().leaves_to_sender(1, SIZE_BYTES)


def test_nothing_is_left_to_senders_where_writes_take_long() -> None:
    assert not after(*[(8, SLOW_S)] * 50).leaves_to_sender(8, SIZE_BYTES)


def test_one_write_that_hangs_is_enough_for_a_while() -> None:
    gathering = after(*[(8, QUICK_S)] * 50, (8, 0.1))

    assert not gathering.leaves_to_sender(8, SIZE_BYTES)
    for _ in range(50):
        gathering.wrote(8, QUICK_S)
    assert gathering.leaves_to_sender(8, SIZE_BYTES)


def test_many_messages_are_not_left_to_their_sender() -> None:
    assert not after(*[(200, QUICK_S)] * 50).leaves_to_sender(200, SIZE_BYTES)


def test_a_few_that_are_large_are_not_left_to_their_sender() -> None:
    gathering = after(*[(8, QUICK_S)] * 50)

    assert gathering.leaves_to_sender(8, 64 << 10)
    assert not gathering.leaves_to_sender(8, (64 << 10) + 1)


def test_where_no_write_waits_for_the_disk_nobody_is_waited_for() -> None:
    gathering = Gathering(waits=False)
    for _ in range(50):
        gathering.wrote(64, SLOW_S)

    assert gathering.plan() == (0, 0.0)
