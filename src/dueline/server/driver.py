"""The command line and the environment of the pipeline's process, from the settings.

The broker never imports Spark: it starts `python -m dueline.spark.delivery` and talks to it over
Flight. `dueline deliver` runs the same module, in its own process, against brokers elsewhere.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

from dueline.config import SPARK_CONF_VARIABLE, DeliverySettings
from dueline.errors import InvalidRequest

__all__ = ["check_driver", "driver_arguments", "driver_command", "driver_environment"]

_MASTER: Final = re.compile(
    r"local(\[(\*|[0-9]+)(, *[0-9]+)?\])?|local-cluster\[.+\]|(spark|k8s)://.+|yarn"
)


def check_driver(settings: DeliverySettings) -> None:
    """Refuse at once what the pipeline would refuse at each of its starts.

    Nothing of the transform is imported here; that there is such a function is for the pipeline's
    process to see, before it starts Spark.

    Raises:
        InvalidRequest: a master or a transform that cannot be.
    """
    if not _MASTER.fullmatch(settings.master):
        raise InvalidRequest(
            "delivery.master: expected local[*], local[N], spark://host:port, k8s://… or yarn, "
            f"found {settings.master!r}"
        )
    if settings.transform is None:
        return
    module, _, name = settings.transform.partition(":")
    if not module or not name:
        raise InvalidRequest(
            f"delivery.transform: expected module:function, found {settings.transform!r}"
        )
    package = module.partition(".")[0]
    if PathFinder.find_spec(package, [str(Path.cwd())]) is None and not _is_installed(package):
        raise InvalidRequest(
            f"delivery.transform: expected a module {package} in the folder {Path.cwd()}, on "
            f"PYTHONPATH or installed, found none ({settings.transform})"
        )


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


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
    are passwords. A transform is looked for in the current folder first, also by the tasks.
    """
    is_local = settings.master.startswith("local")
    paths = [str(Path.cwd()), *filter(None, [environ.get("PYTHONPATH")])]
    return {
        **({"PYSPARK_PYTHON": sys.executable} if is_local else {}),
        **environ,
        **({"PYTHONPATH": os.pathsep.join(paths)} if settings.transform is not None else {}),
        SPARK_CONF_VARIABLE: json.dumps(dict(settings.conf)),
    }
