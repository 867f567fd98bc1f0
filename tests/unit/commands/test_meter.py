import pytest

from dueline.commands.meter import Meter

GIB = 1 << 30


def test_the_line_says_how_far_it_is_and_goes_in_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    meter = Meter(is_shown=True)

    meter("commit log", GIB, 4 * GIB)
    meter("commit log", 2 * GIB, 4 * GIB)  # so soon that nobody could read it
    shown = capsys.readouterr()
    meter.clear()
    meter.clear()

    assert shown.out == ""
    assert shown.err == "\r\x1b[Kcommit log: 1.0 of 4.0 GiB, 25 %"
    assert capsys.readouterr().err == "\r\x1b[K"


def test_elsewhere_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    meter = Meter(is_shown=False)

    meter("commit log", 1, 0)
    meter.clear()

    assert capsys.readouterr().err == ""
