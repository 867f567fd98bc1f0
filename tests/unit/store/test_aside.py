"""What is put aside does not count as something to do for the pipeline."""

from pathlib import Path

import numpy as np
from tests.unit.store.making import START_MS, Wall, delayed, open_store


def test_what_is_under_way_does_not_count_until_nobody_carried_it_over(tmp_path: Path) -> None:
    store = open_store(tmp_path, Wall())
    store.aside.keep(500)
    store.put(delayed(10))
    assert store.aside.next_due_ms() is None
    assert store.next_due_ms() == START_MS + 10

    store.aside.take()
    assert store.aside.next_due_ms() is None, "still on its way"
    store.put(delayed(1_000))
    assert store.aside.next_due_ms() == START_MS + 1_000
    store.cancel_seqs(np.array([1]))
    assert store.aside.next_due_ms() is None

    store.aside.take()
    assert store.aside.next_due_ms() == START_MS + 10
