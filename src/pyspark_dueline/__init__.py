"""Where Spark looks by itself: `spark.read.format("dueline")` without a word before.

Spark imports every package whose name begins with `pyspark_` and takes its `DefaultSource`, if the
Python that it starts has the package. The source that is found so reads and writes like the one
that `dueline.spark.register` makes known, but it does not narrow batch reads: Spark refuses a
source that could, as long as filter pushdown is off, and that is Spark's default.
"""

from __future__ import annotations

from dueline.spark.source import DuelineDataSource

__all__ = ["DefaultSource"]


class DefaultSource(DuelineDataSource):
    """Format `dueline`, for a session that nobody has prepared."""

    narrows = False
