"""Statements over what a broker has, as tables of a Spark session.

    pending     what waits; rows can be narrowed by topic, due time and key at the broker
    messages    what consumers can read; a statement must say of which topic
    ledger      every delayed message within retention, with its outcome

The tables are views of this session alone. Only statements that read are taken: a table that one
creates would be a folder wherever the command happened to be called.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from dueline.errors import InvalidRequest
from dueline.spark.failure import one_line
from dueline.spark.session import SessionOptions, close_session, open_session

__all__ = ["VIEWS", "answer", "answer_once"]

VIEWS: Final = ("pending", "messages", "ledger")
READING: Final = (
    *("select", "with", "from", "values", "table", "describe", "desc", "show", "explain"),
)
_FIRST_WORD: Final = re.compile(r"(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*(\w*)", re.DOTALL)
_STDERR: Final = 2
_OWN_ERROR: Final = re.compile(r"dueline\.errors\.\w+: ")


def answer_once(brokers: str, statement: str, *, row_count_max: int) -> pa.Table:
    """Start Spark, answer one statement, and end Spark; the process can start it no more.

    Raises:
        InvalidRequest: the statement is wrong.
        JavaNotFound: there is no Java to run Spark.
    """
    check(statement)
    # Errors come back to us; Spark need not print their traces as well.
    with _quiet_start():
        session = open_session(SessionOptions(conf={"spark.log.level": "OFF"}))
    try:
        return answer(session, brokers, statement, row_count_max=row_count_max)
    finally:
        close_session(session)


@contextmanager
def _quiet_start() -> Iterator[None]:
    """Let Java greet nobody: it keeps the error output that it is started with."""
    sys.stderr.flush()
    kept, nowhere = os.dup(_STDERR), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDERR)
    try:
        yield
    finally:
        os.dup2(kept, _STDERR)
        os.close(kept)
        os.close(nowhere)


def answer(session: SparkSession, brokers: str, statement: str, *, row_count_max: int) -> pa.Table:
    """The first rows that a statement gives.

    Raises:
        InvalidRequest: the statement is wrong.
    """
    check(statement)
    for name in VIEWS:
        reader = session.read.format("dueline").option("brokers", brokers).option("view", name)
        reader.load().createOrReplaceTempView(name)
    try:
        return session.sql(statement).limit(row_count_max).toArrow()
    except (PySparkException, Py4JError) as error:
        raise InvalidRequest(f"sql: {_said(error)}", field="statement") from error


def _said(error: BaseException) -> str:
    """What is wrong, in one line: the broker's words, or the first of Spark's."""
    text = str(error)
    if isinstance(error, AnalysisException) and _OWN_ERROR.search(text) is None:
        return (text.strip().splitlines() or [type(error).__name__])[0]
    return _OWN_ERROR.sub("", one_line(error))


def check(statement: str) -> None:
    """Raises:
    InvalidRequest: it does not read.
    """
    match = _FIRST_WORD.match(statement)
    word = match.group(1) if match is not None else ""
    if word.lower() not in READING:
        raise InvalidRequest(
            f"sql: expected a statement that reads (select …) from {', '.join(VIEWS)}, found "
            f"{statement.strip()[:50]!r}; `dueline cancel` and `dueline reschedule` change what "
            "waits",
            field="statement",
        )
