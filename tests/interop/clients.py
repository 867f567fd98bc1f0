"""Real RocketMQ clients as programs: Java 4.9, Java 5 and Go, with the same commands and events.

    with client.start("consume", topic="T", group="G") as consumer:
        consumer.wait_events("ready")
        sent = client.run("send", topic="T", count=3, level=3)

The programs are in `java`, `java49`, `java5` and `go`; `java/dueline/interop/Client.java` lists
the commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop import toolchain
from tests.interop.processes import Event, Process

_JAVA = (
    "java",
    "-Xms32m",
    "-Xmx160m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Drocketmq.client.logLevel=WARN",
    # A client that found nobody in its group looks again after 20 seconds; a test need not wait.
    "-Drocketmq.client.rebalance.waitInterval=1000",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One kind of client, pointed at one name server; its logs and offsets go to `folder`."""

    kind: str
    name_server: str
    folder: Path
    java_options: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)

    def start(self, command: str, **options: object) -> Process:
        """Start a program and leave it running."""
        arguments = [command, "--namesrv", self.name_server]
        for name, value in options.items():
            arguments += [f"--{name.replace('_', '-')}", str(value)]
        return Process(
            [*self._program(), *arguments],
            cwd=self.folder,
            environment={
                **{"HOME": str(self.folder), "ROCKETMQ_GO_LOG_LEVEL": "warn"},
                **self.environ,
            },
        )

    def run(self, command: str, **options: object) -> list[Event]:
        """Run a program to its end; fails if it reports an error."""
        with self.start(command, **options) as process:
            events = process.finish()
            assert not process.events("error"), process.story()
            assert process.events("stopped"), process.story()
        return events

    def send(self, **options: object) -> list[Event]:
        """Send messages; the events of those that were sent."""
        return [event for event in self.run("send", **options) if event["event"] == "sent"]

    def _program(self) -> list[str]:
        if self.kind == "go":
            return [str(toolchain.build("go") / "client")]
        logs = self.folder / "logs"
        return [
            *_JAVA,
            *self.java_options,
            f"-Duser.home={self.folder}",
            f"-Drocketmq.client.logRoot={logs}",
            f"-Drocketmq.client.localOffsetStoreDir={self.folder / 'offsets'}",
            "-cp",
            toolchain.class_path(self.kind),
            "dueline.interop.Client",
        ]
