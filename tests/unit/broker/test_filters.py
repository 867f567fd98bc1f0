"""Tag expressions choose by hash first and by the tag itself where it matters."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest

from dueline.broker import filters
from dueline.broker.filters import EVERYTHING, filter_of
from dueline.errors import InvalidRequest

# Java's String.hashCode of these, from a Java shell.
TAG_A, TAG_B = 2598919, 2598920


@pytest.mark.parametrize("expression", ["*", "", " * "])
def test_star_and_nothing_mean_everything(expression: str) -> None:
    assert filter_of(expression) is EVERYTHING


def test_tags_are_chosen_by_their_hash() -> None:
    accept = filter_of(" TagA||TagC ").accept
    assert accept is not None

    chosen = accept(np.array([TAG_A, TAG_B, 0, -1], dtype=np.int64))

    assert chosen.tolist() == [True, False, False, False]


def test_equal_hashes_are_told_apart_by_the_tag() -> None:
    # "Aa" and "BB" have one hash in Java: the usual example.
    found = filter_of("Aa")
    assert found.accept is not None
    assert found.matches is not None

    assert found.accept(np.array([2112], dtype=np.int64)).tolist() == [True]
    assert found.matches({"TAGS": "Aa"})
    assert not found.matches({"TAGS": "BB"})


def test_sql_needs_properties() -> None:
    found = filter_of("a > 5", "SQL92")
    assert found.matches is not None

    assert found.needs_properties
    assert found.accept is None
    assert found.matches({"a": "6"})


@pytest.mark.parametrize(
    ("expression", "kind"), [("||", "TAG"), ("a >", "SQL92"), ("a", "CLASS"), ("x" * 70_000, "TAG")]
)
def test_bad_expressions_are_refused(expression: str, kind: str) -> None:
    with pytest.raises(InvalidRequest, match="filter"):
        filter_of(expression, kind)


def test_cache_of_filters_is_bounded_in_bytes() -> None:
    """Each of these takes about 170 bytes a character when it is parsed."""
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()

    for number in range(120):
        filter_of(" OR ".join([f"property_{number} = 1"] * 250), "SQL92")
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert after - before < filters.CACHE_SIZE_BYTES_MAX + (8 << 20)
    assert filters._cache.size_bytes <= filters.CACHE_SIZE_BYTES_MAX


def test_usual_filter_is_parsed_once() -> None:
    assert filter_of("a > 1", "SQL92") is filter_of("a > 1", "SQL92")
    assert filter_of("x || y") is filter_of("x || y")
