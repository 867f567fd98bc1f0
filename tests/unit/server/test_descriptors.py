import resource
from collections.abc import Iterator

import pytest

from dueline.errors import Unavailable
from dueline.server.descriptors import connection_files, raise_limit


class Machine:
    """What `ulimit -n` and `ulimit -Hn` say."""

    def __init__(self, soft: int, hard: int, *, is_stubborn: bool = False) -> None:
        self.soft, self.hard = soft, hard
        self.is_stubborn = is_stubborn

    def get(self, _: int) -> tuple[int, int]:
        return self.soft, self.hard

    def set(self, _: int, values: tuple[int, int]) -> None:
        if self.is_stubborn or values[0] > self.hard >= 0:
            raise ValueError("not allowed")
        self.soft, self.hard = values


@pytest.fixture
def monkey() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as made:
        yield made


@pytest.mark.parametrize(
    ("soft", "hard", "soft_after", "for_connections"),
    [
        (100_000, 100_000, 100_000, 98_976),
        (1_024, 100_000, 100_000, 98_976),
        (1_024, resource.RLIM_INFINITY, 1_048_576, 1_047_552),
        (1_024, 1 << 30, 1_048_576, 1_047_552),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, resource.RLIM_INFINITY, 1_047_552),
        (1_024, 4_096, 4_096, 3_072),
        (1_024, 1_024, 1_024, 512),
        (256, 256, 256, 128),
    ],
)
def test_the_limit_is_raised_and_some_files_are_set_aside(
    monkey: pytest.MonkeyPatch, soft: int, hard: int, soft_after: int, for_connections: int
) -> None:
    machine = Machine(soft, hard)
    monkey.setattr(resource, "getrlimit", machine.get)
    monkey.setattr(resource, "setrlimit", machine.set)

    assert connection_files(raise_limit()) == for_connections
    assert machine.soft == soft_after


def test_a_limit_that_cannot_be_raised_is_kept(monkey: pytest.MonkeyPatch) -> None:
    machine = Machine(1_024, resource.RLIM_INFINITY, is_stubborn=True)
    monkey.setattr(resource, "getrlimit", machine.get)
    monkey.setattr(resource, "setrlimit", machine.set)

    assert raise_limit() == 1_024


def test_too_few_files_are_told(monkey: pytest.MonkeyPatch) -> None:
    monkey.setattr(resource, "getrlimit", Machine(100, 100).get)
    monkey.setattr(resource, "setrlimit", Machine(100, 100).set)

    with pytest.raises(Unavailable, match=r"at least 256, found 100; raise it with `ulimit -n"):
        raise_limit()
