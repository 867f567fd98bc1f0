"""What all tests share: how hard the random tests try, and where a test stops being allowed.

`DUELINE_SOAK=1` (`make soak`) runs the tests marked `soak`, tries every case where a test otherwise
takes a sample, and gives every property test many times the examples. `DUELINE_EXAMPLES` says how
many, with or without it; `--hypothesis-seed` says which. A failing example prints the line that
repeats it. What a test records as "campaign" is printed at the end: how much it has tried.

`make test` runs several test processes side by side. What they share is decided here: tests of one
file run in one process, and so do all tests of a fixture that takes long to start; the longest
parts begin first, so that none of them is left for the end.
"""

import os
import signal
from pathlib import Path
from typing import Final

import hypothesis
import pytest

IS_SOAK = os.environ.get("DUELINE_SOAK") == "1"

EXAMPLES = int(os.environ.get("DUELINE_EXAMPLES", "1000" if IS_SOAK else "60"))
"""Of a property test that does not name a number of its own."""

# No deadline per example: the machine may be busy, and a test that fails then says nothing.
hypothesis.settings.register_profile(
    "normal", deadline=None, print_blob=True, max_examples=EXAMPLES
)
hypothesis.settings.register_profile(
    "soak",
    deadline=None,
    print_blob=True,
    max_examples=EXAMPLES,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("soak" if IS_SOAK else "normal")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in its background so, and commands that tests start would inherit it:
    # they could not be ended by Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


SHARED_FIXTURES: Final = ("live", "server", "spark", "served")
"""Each is started once in a test process and takes some ten seconds."""

LONGEST_FIRST: Final = (
    *("faults", "interop", "spark", "web", "docs", "tasks", "crash", "serve", "property"),
    *("packages", "backup", "audit", "access", "contract"),
)

_HERE: Final = Path(__file__).parent


def _group(item: pytest.Item) -> str:
    """Tests of one group run in one process, one after the other."""
    names = getattr(item, "fixturenames", ())
    path = item.path.relative_to(_HERE)
    shared = next((name for name in SHARED_FIXTURES if name in names), None)
    return path.as_posix() if shared is None else f"{path.parts[0]}/{shared}"


def _rank(item: pytest.Item) -> int:
    folder = item.path.relative_to(_HERE).parts[0]
    return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let `caplog` keep its format: it is added to loggers of PySpark's, which set their own."""
    plugin = session.config.pluginmanager.get_plugin("logging-plugin")
    assert plugin is not None
    for handler in (plugin.caplog_handler, plugin.report_handler):
        handler.setFormatter = lambda formatter: None


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in this hook too
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=_rank)
        for item in items:
            item.add_marker(pytest.mark.xdist_group(_group(item)))
    if IS_SOAK:
        return
    skip = pytest.mark.skip(reason="a long campaign; run it with `make soak`")
    for item in items:
        if item.get_closest_marker("soak") is not None:  # not a folder of that name
            item.add_marker(skip)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How much each campaign has tried."""
    lines = [
        f"{report.nodeid}: {text}"
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        for name, text in report.user_properties
        if name == "campaign"
    ]
    if lines:
        terminalreporter.section("campaigns")
        terminalreporter.write_line("\n".join(lines))
