"""The process that Spark forks its Python workers from, with what they need already loaded.

Spark starts several Python processes for one query, one after the other, and each of them loads
Arrow, numpy and Dueline before it answers: about 0.6 s of processor time each. As
`spark.python.daemon.module` this module loads them once, and every worker has them when it begins.

What is loaded here must not leave a lock taken in a thread that a fork does not copy. numpy is told
to start none; Arrow's one thread belongs to an allocator that knows about forks.
"""

from __future__ import annotations

import importlib
import os
from typing import Final

__all__ = ["PRELOADED", "main"]

PRELOADED: Final = (
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "dueline.spark.reader",
    "dueline.spark.source",
    "dueline.spark.writer",
)


def main() -> None:
    """Load what workers need, then wait for Spark to ask for workers."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in PRELOADED:
        importlib.import_module(name)
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
