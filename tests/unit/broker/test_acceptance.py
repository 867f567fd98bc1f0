"""A broker takes messages until it begins to stop, and then never again."""

import pytest

from dueline.broker.acceptance import Acceptance
from dueline.errors import Unavailable


def test_it_is_open_until_it_is_ended() -> None:
    acceptance = Acceptance()
    acceptance.check()

    acceptance.end()

    assert not acceptance.is_open
    with pytest.raises(Unavailable, match="send again when it is back"):
        acceptance.check()
