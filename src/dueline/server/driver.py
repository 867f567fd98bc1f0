"""The command line and the environment of the pipeline's process, from the settings.

The broker never imports Spark: it starts `python -m dueline.spark.delivery` and talks to it over
Flight. `dueline deliver` runs the same module, in its own process, against brokers elsewhere.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

from dueline.config import SPARK_CONF_VARIABLE, DeliverySettings

__all__ = ["driver_arguments", "driver_command", "driver_environment"]


def driver_command(settings: DeliverySettings, brokers: Sequence[str]) -> list[str]:
    """How a broker starts its pipeline; it ends when its standard input is closed."""
    module = "dueline.spark.delivery"
    return [sys.executable, "-m", module, *driver_arguments(settings, brokers), "--tethered"]


def driver_arguments(settings: DeliverySettings, brokers: Sequence[str]) -> list[str]:
    """The pipeline's arguments: what everybody may see, since a process list shows them."""
    arguments = []
    for address in brokers:
        arguments += ["--broker", address]
    arguments += ["--master", settings.master, "--heap", settings.heap]
    if settings.transform is not None:
        arguments += ["--transform", settings.transform]
    if settings.checkpoint is not None:
        arguments += ["--checkpoint", settings.checkpoint]
    source = {
        "ahead": f"{settings.runway_ms}ms",
        "lead": f"{settings.lead_ms}ms",
        "row_count_max": str(settings.row_count_max),
    }
    for name, value in source.items():
        arguments += ["--option", f"{name}={value}"]
    return arguments


def driver_environment(settings: DeliverySettings, environ: Mapping[str, str]) -> dict[str, str]:
    """The pipeline's environment: tasks on this machine use the Python that we run on.

    Spark would take the first `python3` on PATH, which need not have Dueline. On a cluster it is
    for the workers to say. Spark's settings travel here, where only this user can read them: some
    are passwords.
    """
    is_local = settings.master.startswith("local")
    return {
        **({"PYSPARK_PYTHON": sys.executable} if is_local else {}),
        **environ,
        SPARK_CONF_VARIABLE: json.dumps(dict(settings.conf)),
    }
