import pytest
from tests.unit.commands.conftest import Run


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--broker", ","), "--broker: expected host:port, found ','"),
        (("--broker", "here"), "address: expected host:port"),
        (("--broker", "h:1", "--ahead", "5"), "expected a number with a unit"),
        (("--broker", "h:1", "--master", "locl[*]"), "delivery.master: expected local[*]"),
        (("--broker", "h:1", "--transform", "nosuch:f"), "expected a module nosuch in the folder"),
        ((), "the following arguments are required: --broker"),
    ],
)
def test_mistakes_are_told_before_spark_is_started(
    run: Run, words: tuple[str, ...], text: str
) -> None:
    ran = run("deliver", *words)

    assert ran.code == 2
    assert text in ran.err
