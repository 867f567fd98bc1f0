from pathlib import Path

from tests.unit.store.making import Wall, delayed, open_store

from dueline.broker.delayed_states import states_of
from dueline.store.restore import deliveries


def test_a_message_has_one_of_six_states(tmp_path: Path) -> None:
    store = open_store(tmp_path, Wall())
    for key, delay_ms in (("gate", 1_000), ("goes", 60_000), ("moves", 60_000), ("stays", 60_000)):
        store.put(delayed(delay_ms, KEYS=key))
    until_ms = store.clock.now_ms() + 2_000
    window = store.window(store.next_corner(until_ms=until_ms, row_count_max=10))
    store.deliver([deliveries(store.read_window(window))])
    store.cancel("goes")
    store.reschedule("moves", store.clock.now_ms() + 90_000)

    states = {
        key: states_of(store.find_delayed(key))
        for key in ("gate", "goes", "moves", "stays", "none")
    }

    assert states == {
        "gate": ["carried over"],
        "goes": ["cancelled"],
        "moves": ["pending", "moved"],
        "stays": ["pending"],
        "none": [],
    }
