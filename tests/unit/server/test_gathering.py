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
