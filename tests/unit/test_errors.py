"""Errors carry facts, print as sentences, and survive a process boundary."""

from __future__ import annotations

import pickle

import pytest

from dueline import errors
from dueline.errors import BrokerError, LimitExceeded


def test_facts_are_attributes() -> None:
    error = LimitExceeded("too long: expected at most 5, found 6", limit=5, found=6)

    assert (error.limit, error.found) == (5, 6)
    assert str(error) == error.message == "too long: expected at most 5, found 6"
    with pytest.raises(AttributeError, match="path"):
        _ = error.path


@pytest.mark.parametrize("name", errors.__all__)
def test_errors_can_be_pickled(name: str) -> None:
    error = getattr(errors, name)("message", path="p", position=3)

    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert (copy.message, copy.details) == ("message", {"path": "p", "position": 3})


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_is_a_broker_error(name: str) -> None:
    assert issubclass(getattr(errors, name), BrokerError)


def test_error_without_details_can_be_looked_into() -> None:
    """Unpickling asks for attributes before there are any."""
    empty = BrokerError.__new__(BrokerError)

    with pytest.raises(AttributeError):
        _ = empty.anything
