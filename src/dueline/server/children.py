"""The children of `dueline serve`, one value for each.

The broker comes first. The others are started when it accepts: `others_of` is their list.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Final

from dueline.access_settings import pipeline_environment, web_environment
from dueline.config import Config
from dueline.server.child import Child, Restarts
from dueline.server.driver import driver_command, driver_environment
from dueline.server.telling import Accepting

__all__ = ["BROKER_LOG", "PIPELINE", "broker_of", "others_of"]

BROKER_LOG: Final = "broker.log"
PIPELINE: Final = "pipeline"
WEB: Final = "web"
_SMALL: Final = {"MALLOC_ARENA_MAX": "2"}
"""The C library keeps memory back for each thread, and Java has some hundred."""


def broker_of(config: Config, *, lock: int) -> Child:
    """The broker: everything else waits for it, so it is started again at once."""
    return Child(
        name="broker",
        title="the broker",
        command=(sys.executable, "-m", "dueline.server.broker_child"),
        environ=os.environ,
        log_path=config.folder / BROKER_LOG,
        restarts=Restarts(pause_s_min=0.05, pause_s_max=5.0, steady_s=5.0, failure_count_max=5),
        tells=True,
        has_spare=True,
        descriptors=(lock,),
    )


def others_of(config: Config, broker: Accepting) -> Iterator[Child]:
    """What runs beside a broker that accepts."""
    if config.delivery.enabled:
        yield _pipeline(config, broker)
    if config.listen.http is not None:
        yield _web(config, config.listen.http, broker)


def _web(config: Config, address: str, broker: Accepting) -> Child:
    """Pages, API and metrics; messages go their way without them."""
    return Child(
        name=WEB,
        title="the web process",
        command=(
            *(sys.executable, "-m", "dueline", "web", "--json", "--tethered"),
            *("--broker", broker.local_address, "--http", address),
        ),
        environ=web_environment(
            config.access,
            config.access_folder,
            {**config.client_environment(), **os.environ, **_settings_of_web(config)},
        ),
        log_path=config.folder / "web.log",
        tells=True,
        is_killed=True,
        is_optional=True,
    )


def _settings_of_web(config: Config) -> dict[str, str]:
    """What the web process does as the broker does, from wherever the broker's settings came."""
    access, tls = config.access, config.tls
    return {
        "DUELINE_DATA": str(config.folder.absolute()),
        "DUELINE_ACCESS_ENABLED": _flag(access.enabled),
        "DUELINE_ACCESS_CERTIFICATE_USERS": _flag(access.certificate_users),
        "DUELINE_TLS_MODE": tls.mode,
        "DUELINE_TLS_CERTIFICATE": tls.certificate or "",
        "DUELINE_TLS_PRIVATE_KEY": tls.private_key or "",
        "DUELINE_TLS_CLIENT_CA": tls.client_ca or "",
        "DUELINE_TLS_REQUIRE_CLIENT_CERTIFICATE": _flag(tls.require_client_certificate),
    }


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _pipeline(config: Config, broker: Accepting) -> Child:
    """Spark's driver. On this machine it is killed at the end: what it did is in the store."""
    is_local = config.delivery.master.startswith("local")
    return Child(
        name=PIPELINE,
        title="Spark",
        command=tuple(driver_command(config.delivery, [broker.local_address])),
        environ=driver_environment(
            config.delivery,
            pipeline_environment(
                config.access,
                config.access_folder,
                {**_SMALL, **config.client_environment(), **os.environ},
            ),
        ),
        log_path=config.folder / "spark.log",
        is_killed=is_local,
        has_scratch=is_local,
    )
