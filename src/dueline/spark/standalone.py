"""The processes of a Spark standalone cluster, out of the PySpark that is installed here.

PySpark has all of a cluster's classes and no script to start them; and the Java runtime that comes
with Dueline takes an argument fewer than Spark's launcher gives (`dueline.spark.java`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyspark

from dueline.spark.java import prepare_java

__all__ = ["ROLES", "process_of"]

ROLES: Final = {
    "master": "org.apache.spark.deploy.master.Master",
    "worker": "org.apache.spark.deploy.worker.Worker",
}


def process_of(
    role: str, arguments: Sequence[str], environ: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """The command and the environment of a master or a worker.

    Raises:
        JavaNotFound: there is no Java to run it.
    """
    environment = dict(environ)
    prepare_java(environment).apply(environment)
    home = Path(pyspark.__file__).parent
    environment["SPARK_HOME"] = str(home)
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    return [str(home / "bin" / "spark-class"), ROLES[role], *arguments], environment
