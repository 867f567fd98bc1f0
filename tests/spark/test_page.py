"""docs/spark.md: its programs run, and its table of options is whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import Broker

from dueline.spark.options import _PARSERS

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.spark
def test_the_programs_of_the_page_run(
    spark: SparkSession, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, object] = {}
    for program in PROGRAMS:
        exec(compile(program.replace("127.0.0.1:8815", broker.address), "page", "exec"), names)

    printed = capsys.readouterr().out
    assert "2 scheduled" in printed
    assert "|reminders|    4|" in printed  # the clock of this broker is slow
    assert broker.store.pending_count() == 4


def test_every_option_is_in_the_table() -> None:
    table = PAGE[PAGE.index("## Every option") :]

    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == set(_PARSERS)
