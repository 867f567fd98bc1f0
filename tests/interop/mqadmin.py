"""RocketMQ's own administration tool (mqadmin) against any name server."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.interop import toolchain
from tests.interop.logback import write_logback
from tests.waiting import PATIENCE_S

# What the tool's own logging says about itself, between the lines that matter.
_NOISE = "|-INFO in "
_ATTEMPTS_MAX = 5


def mqadmin(
    name_server: str, folder: Path, command: str, *arguments: str, release: str = "apache5"
) -> str:
    """Run one command of the tool and return what it printed.

    The tool exits with 0 whatever happens, so the caller has to look at the words. `apache49` is
    the last 4.x release of it, `apache5` the newest. It waits five seconds for an answer, which a
    busy machine may need: then it is asked again.
    """
    write_logback(folder, "tools")
    for _ in range(_ATTEMPTS_MAX):
        printed = _run(name_server, folder, command, *arguments, release=release)
        if "RemotingTimeoutException" not in printed:
            break
    return printed


def _run(name_server: str, folder: Path, command: str, *arguments: str, release: str) -> str:
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
        timeout=PATIENCE_S,
        check=False,
    )
    return "\n".join(line for line in result.stdout.splitlines() if _NOISE not in line)
