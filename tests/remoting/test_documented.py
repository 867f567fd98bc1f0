"""docs/protocol/remoting.md names the requests that are served, and no others."""

import re
from pathlib import Path

from tests.remoting.serving import RunningBroker

PAGE = Path(__file__).parents[2] / "docs" / "protocol" / "remoting.md"


def test_page_names_what_is_served_and_nothing_else(broker: RunningBroker) -> None:
    text = PAGE.read_text()
    asked = _between(text, "To the name server:", "To clients, from the broker:")
    told = _between(text, "To clients, from the broker:", "Everything else")
    unserved = {int(number) for number in re.findall(r"\d+", _between(text, "Everything", "## "))}

    served = {int(code) for hub in broker.service.hubs for code in hub.table}

    assert _first_column(asked) == served
    assert unserved & (served | _first_column(told)) == {3}.intersection(served)


def _between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0]


def _first_column(tables: str) -> set[int]:
    cells = re.findall(r"^\|([\d, ]+)\|", tables, re.MULTILINE)
    return {int(number) for cell in cells for number in cell.split(",")}
