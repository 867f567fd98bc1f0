"""What is due when, against a plain dictionary."""

from hypothesis import given
from hypothesis import strategies as st

from dueline.broker.agenda import Agenda

changes = st.lists(
    st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(0, 20))), max_size=200
)


@given(changes, st.integers(0, 20), st.integers(1, 10))
def test_agenda_is_a_dictionary_in_the_order_of_its_times(
    steps: list[tuple[int, int | None]], now_ms: int, count_max: int
) -> None:
    agenda = Agenda()
    times: dict[int, int] = {}
    for number, at_ms in steps:
        if at_ms is None:
            agenda.remove(number)
            times.pop(number, None)
        else:
            agenda.put(number, at_ms)
            times[number] = at_ms

    expected = sorted((at_ms, number) for number, at_ms in times.items() if at_ms <= now_ms)
    for _ in range(2):  # what is due stays due
        assert agenda.due(now_ms, count_max) == [number for _, number in expected[:count_max]]
    assert len(agenda) == len(times)


def test_a_message_that_is_put_off_without_end_takes_no_more_room() -> None:
    agenda = Agenda()
    for at_ms in range(10_000):
        agenda.put(1, at_ms)

    assert len(agenda._heap) < 100
