"""The live view says what the broker knows, once or again and again, for people and programs."""

from __future__ import annotations

import json

import pytest
from tests.unit.commands.conftest import Run
from tests.unit.server.local import outgoing, send

from dueline.commands.terminal import Screen
from dueline.commands.top import sparkline
from dueline.server.process import BrokerProcess


def test_a_frame_says_what_waits_and_when_it_falls_due(broker: BrokerProcess, run: Run) -> None:
    for delay_ms in (600_000, 610_000, 99_000_000):
        send(broker, outgoing("x", topic="orders", TIMER_DELAY_MS=str(delay_ms)))

    ran = run("top", "--once")

    rows = {line[:10].strip(): line[10:] for line in ran.lines if line[:1].isalpha()}
    assert ran.code == 0
    assert rows["waiting"].startswith("3, 0 of them at the gate; next due in ")
    assert rows["road"] == "2 fall due within the hour, 1 later"
    assert rows["flow"] == "3 in, 0 fell due, this minute"
    assert "No pipeline delivers" in ran.out
    assert ["orders", "3", "0"] in [line.split() for line in ran.lines]
    assert "\x1b" not in ran.out


def test_a_frame_for_programs_is_a_line(broker: BrokerProcess, run: Run) -> None:
    send(broker, outgoing("x", TIMER_DELAY_MS="600000"))

    (line,) = run("top", "--once", "--json").lines

    frame = json.loads(line)
    assert (frame["report"]["pending"], sum(frame["road"]["counts"])) == (1, 1)
    assert [each["tone"] for each in frame["attention"]] == ["bad"]


def test_it_goes_on_until_it_is_interrupted(
    broker: BrokerProcess, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    def wait(seconds: float) -> None:
        slept.append(seconds)
        send(broker, outgoing("x"))
        if len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("dueline.commands.top.sleep", wait)
    ran = run("top", "--interval", "500ms")

    flows = [line for line in ran.lines if line.startswith("flow")]
    assert slept == [0.5, 0.5, 0.5]
    assert flows[0].endswith("0 in, 0 fell due, this minute")
    assert all(line.endswith("fell due a second") for line in flows[1:])
    assert len(flows) == 3


def test_an_interval_has_a_bound(broker: BrokerProcess, run: Run) -> None:
    ran = run("top", "--interval", "10ms")

    assert ran.code != 0
    assert "expected at least 100 ms, found 10 ms" in ran.err


@pytest.mark.parametrize(
    ("counts", "expected"),
    [([], ""), ([0, 0], "  "), ([7], "█"), ([1, 1_000], "▁█"), ([1, 2, 3, 4], "▂▄▆█")],
)
def test_heights_tell_counts(counts: list[int], expected: str) -> None:
    assert sparkline(counts) == expected


def test_a_screen_is_left_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    with Screen(is_on=True) as screen:
        screen.show(["a", "evil \x1b[31m"])
    with Screen(is_on=False):
        pass

    out = capsys.readouterr().out
    assert out.startswith("\x1b[?1049h")
    assert out.endswith("\x1b[?1049l")
    assert "evil \\x1b[31m" in out
