"""RocketMQ's own administration tool (mqadmin) against any name server."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.interop import toolchain
from tests.interop.logback import write_logback

SECONDS_MAX = 60.0
# What the tool's own logging says about itself, between the lines that matter.
_NOISE = "|-INFO in "


def mqadmin(
    name_server: str, folder: Path, command: str, *arguments: str, release: str = "apache5"
) -> str:
    """Run one command of the tool and return what it printed.

    The tool exits with 0 whatever happens, so the caller has to look at the words. `apache49` is
    the last 4.x release of it, `apache5` the newest.
    """
    write_logback(folder, "tools")
    result = subprocess.run(
        [
            "java",
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Duser.home={folder}",
            f"-Drocketmq.client.logRoot={folder / 'logs'}",
            "-cp",
            toolchain.class_path(release),
            "org.apache.rocketmq.tools.command.MQAdminStartup",
            command,
            "-n",
            name_server,
            *arguments,
        ],
        cwd=folder,
        env={"ROCKETMQ_HOME": str(folder), "HOME": str(folder), "PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return "\n".join(line for line in result.stdout.splitlines() if _NOISE not in line)
