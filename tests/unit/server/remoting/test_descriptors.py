import resource
from collections.abc import Iterator

import pytest

from dueline.errors import Unavailable
from dueline.server.remoting.descriptors import fitted
from dueline.server.remoting.limits import Limits


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
    ("soft", "hard", "count", "soft_after"),
    [
        (100_000, 100_000, 10_000, 100_000),
        (1_024, 100_000, 10_000, 20_512),
        (1_024, resource.RLIM_INFINITY, 10_000, 20_512),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 10_000, resource.RLIM_INFINITY),
        (1_024, 4_096, 1_792, 4_096),
        (1_024, 1_024, 256, 1_024),
        (256, 256, 64, 256),
    ],
)
def test_connections_fit_the_files(
    monkey: pytest.MonkeyPatch, soft: int, hard: int, count: int, soft_after: int
) -> None:
    machine = Machine(soft, hard)
    monkey.setattr(resource, "getrlimit", machine.get)
    monkey.setattr(resource, "setrlimit", machine.set)

    assert fitted(Limits(), port_count=2).connection_count_max == count
    assert machine.soft == soft_after
    assert fitted(Limits(connection_count_max=9), port_count=2).connection_count_max == 9
    assert fitted(Limits(), port_count=0) == Limits()


def test_a_limit_that_cannot_be_raised_is_kept(monkey: pytest.MonkeyPatch) -> None:
    machine = Machine(1_024, resource.RLIM_INFINITY, is_stubborn=True)
    monkey.setattr(resource, "getrlimit", machine.get)
    monkey.setattr(resource, "setrlimit", machine.set)

    assert fitted(Limits(), port_count=1).connection_count_max == 512


def test_too_few_files_are_told(monkey: pytest.MonkeyPatch) -> None:
    monkey.setattr(resource, "getrlimit", Machine(100, 100).get)
    monkey.setattr(resource, "setrlimit", Machine(100, 100).set)

    with pytest.raises(Unavailable, match=r"at least 256, found 100; raise it with `ulimit -n"):
        fitted(Limits(), port_count=2)
