"""The format `dueline` in a session that somebody else has started.

A session on this machine starts its tasks with `python3` from PATH unless `PYSPARK_PYTHON` says
otherwise; the Python that calls us has Dueline, so that one is taken. On a cluster the workers have
a Python of their own: a small job asks it for its Dueline before anything else fails.
"""

from __future__ import annotations

import os
import pkgutil
import sys
from typing import Final

from pyspark import SparkContext
from pyspark.errors import PySparkAttributeError, PySparkException
from pyspark.sql import SparkSession

from dueline import __version__
from dueline.errors import Unavailable
from dueline.spark.source import DuelineDataSource

__all__ = ["register"]

_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
_ANY_PYTHON: Final = "python3"


def register(session: SparkSession) -> None:
    """Make the format known; see `dueline.spark.register`."""
    context = _context_of(session)
    if context is not None:
        _find_python(context)
    session.dataSource.register(DuelineDataSource)
    # Off by default, and then Spark refuses a source that could narrow its reads.
    session.conf.set(_PUSHDOWN, "true")


def _context_of(session: SparkSession) -> SparkContext | None:
    """None for a session whose Spark is elsewhere (Spark Connect): its server has the Python."""
    try:
        return session.sparkContext
    except PySparkAttributeError:
        return None


def _find_python(context: SparkContext) -> None:
    master = context.master or ""
    if not master.startswith("local"):
        _check_workers(context)
    elif context.pythonExec == _ANY_PYTHON and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable


def _check_workers(context: SparkContext) -> None:
    """Ask one worker: a function of the standard library travels by its name alone."""
    try:
        (found,) = (
            context.parallelize(["dueline:__version__"], 1).map(pkgutil.resolve_name).collect()
        )
    except (PySparkException, OSError) as error:
        raise Unavailable(
            f"the cluster's workers: expected Dueline {__version__} in their Python "
            f"({context.pythonExec!r}), found: {_reason(error)}; install it there "
            f"(pip install dueline=={__version__}) and name that Python in PYSPARK_PYTHON or "
            "spark.pyspark.python before the session starts"
        ) from error
    if found != __version__:
        raise Unavailable(
            f"the cluster's workers: expected Dueline {__version__} as on the driver, found "
            f"{found}; install the same version on both"
        )


def _reason(error: BaseException) -> str:
    """The line that says why, out of Java's and Python's stack traces."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Error" in line and not line.startswith("at ")]
    return (told or lines or [type(error).__name__])[-1]
