"""RocketMQ's own administration tool (mqadmin), newest release, against any name server."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.interop import toolchain

SECONDS_MAX = 60.0
RELEASE = "apache5"


def mqadmin(name_server: str, folder: Path, command: str, *arguments: str) -> str:
    """Run one command of the tool and return what it printed.

    The tool exits with 0 whatever happens, so the caller has to look at the words.
    """
    result = subprocess.run(
        [
            "java",
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Duser.home={folder}",
            f"-Drocketmq.client.logRoot={folder / 'logs'}",
            "-cp",
            toolchain.class_path(RELEASE),
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
    return result.stdout
