"""Apache's own name server and broker, started from their published jars.

The reference: the same programs run against it and against Dueline, and it can open a store that
Dueline wrote. Everything is small (heap, log files, index), on free loopback ports and in one
folder.

    with Apache.start("apache5", folder) as apache:
        apache.name_server                              # "127.0.0.1:…"
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.interop import toolchain
from tests.interop.logback import write_logback
from tests.interop.processes import Process
from tests.interop.remoting import Connection
from tests.ports import free_ports
from tests.waiting import wait_until

from dueline.wire import RequestCode, ResponseCode

CLUSTER = "DefaultCluster"
BROKER = "broker-a"
# Short ones first, so that a test of retries does not take minutes; the first three are enough.
LEVELS = "1s 2s 3s 4s 5s 6s 7s 8s 9s 10s 11s 12s 13s 14s 15s 16s 1h 2h"

# Starts quickly and takes little; a benchmark wants the other things.
_TEST_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx384m")
_JAVA = (
    "java",
    "-XX:MaxDirectMemorySize=512m",
    # Both releases were written before modules: buffers are freed by reflection.
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
)
_BROKER_SETTINGS = {
    "brokerClusterName": CLUSTER,
    "brokerName": BROKER,
    "brokerId": "0",
    "brokerIP1": "127.0.0.1",
    "brokerIP2": "127.0.0.1",
    "messageDelayLevel": LEVELS,
    "autoCreateTopicEnable": "true",
    "defaultTopicQueueNums": "4",
    # A machine that is nearly full is no reason for a test to fail.
    "diskMaxUsedSpaceRatio": "99",
    # Small files: the store of a test is a few megabytes instead of gigabytes.
    "mappedFileSizeCommitLog": str(64 << 20),
    "mappedFileSizeConsumeQueue": str(20 * 30_000),
    "maxHashSlotNum": "10000",
    "maxIndexNum": "40000",
    # Asks about undecided transactions after seconds instead of minutes.
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "2000",
    "waitTimeMillsInSendQueue": "5000",
    # 5.x: recalling is off by default.
    "recallMessageEnable": "true",
}


class Apache:
    """A running name server and broker."""

    def __init__(
        self,
        release: str,
        folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        jvm: Sequence[str] = _TEST_JVM,
    ) -> None:
        self.release = release
        self._jvm = jvm
        self.folder = folder
        self.store = folder / "store"
        self._settings = dict(settings or {})
        name_server_port, ha_port = free_ports(2)
        (broker_port,) = free_ports(1, apart=2)
        self.name_server = f"127.0.0.1:{name_server_port}"
        self.broker = f"127.0.0.1:{broker_port}"
        self._broker_settings = {
            **_BROKER_SETTINGS,
            "namesrvAddr": self.name_server,
            "listenPort": str(broker_port),
            "haListenPort": str(ha_port),
            "storePathRootDir": str(self.store),
            "storePathCommitLog": str(self.store / "commitlog"),
            **self._settings,
        }
        self._processes = contextlib.ExitStack()
        self.name_server_process: Process | None = None
        self.broker_process: Process | None = None

    @classmethod
    def start(
        cls,
        release: str,
        folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        jvm: Sequence[str] = _TEST_JVM,
    ) -> Self:
        """Start both and wait until a producer could send.

        Args:
            release: `apache49` or `apache5`.
            folder: configuration, logs and the store, which may be there already.
            settings: broker settings that differ from the usual ones.
            jvm: what the broker's virtual machine is told.
        """
        for is_last in (False, False, True):
            server = cls(release, folder, settings=settings, jvm=jvm)
            try:
                server.start_name_server()
                server.start_broker()
            except BaseException as error:
                server.stop()
                # A free port may be somebody else's by the time that Java has started.
                if is_last or "Address already in use" not in str(error):
                    raise
            else:
                return server
        raise AssertionError("the last attempt returns or raises")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start_name_server(self) -> None:
        """Start the name server and wait until it answers."""
        write_logback(self.folder, "namesrv")
        path = self._write_settings(
            "namesrv.properties",
            {
                "listenPort": self.name_server.rpartition(":")[2],
                "kvConfigPath": str(self.folder / "kvConfig.json"),
            },
        )
        self.name_server_process = self._java(
            (*_TEST_JVM, "-Xmx128m"), "org.apache.rocketmq.namesrv.NamesrvStartup", str(path)
        )
        self._wait_answer(
            self.name_server, RequestCode.GET_BROKER_CLUSTER_INFO, {}, self.name_server_process
        )

    def start_broker(self) -> None:
        """Start the broker; after `stop_broker` or `kill_broker` again, on the same store."""
        write_logback(self.folder, "broker")
        path = self._write_settings("broker.properties", self._broker_settings)
        self.broker_process = self._java(
            self._jvm, "org.apache.rocketmq.broker.BrokerStartup", str(path)
        )
        self._wait_answer(
            self.name_server,
            RequestCode.GET_ROUTE_INFO_BY_TOPIC,
            {"topic": "TBW102"},
            self.broker_process,
        )
        self._wait_answer(self.broker, RequestCode.GET_ALL_TOPIC_CONFIG, {}, self.broker_process)

    def stop_broker(self) -> None:
        """Let the broker leave in order; its store is then complete on disk."""
        assert self.broker_process is not None
        self.broker_process.stop(seconds_max=60)

    def kill_broker(self) -> None:
        """End the broker as a power failure would."""
        assert self.broker_process is not None
        self.broker_process.kill()

    def stop(self) -> None:
        """Stop whatever runs."""
        self._processes.close()

    def _java(
        self, jvm: Sequence[str], main: str, settings_path: str, *, options: Sequence[str] = ("-c",)
    ) -> Process:
        process = Process(
            [
                *_JAVA,
                *jvm,
                f"-Duser.home={self.folder}",
                "-cp",
                toolchain.class_path(self.release),
                main,
                *options,
                settings_path,
            ],
            cwd=self.folder,
            environment={"ROCKETMQ_HOME": str(self.folder), "HOME": str(self.folder)},
        )
        # Leaving in order takes a 5.x broker half a minute; who wants that calls `stop_broker`.
        self._processes.callback(process.kill)
        return process

    def _write_settings(self, name: str, settings: Mapping[str, str]) -> Path:
        path = self.folder / name
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def _wait_answer(
        self, address: str, code: int, ext: Mapping[str, str], process: Process
    ) -> None:
        def answers() -> bool:
            assert process.is_running, f"ended: {process.story()}"
            try:
                with Connection(address, timeout_seconds=5) as connection:
                    return connection.call(code, ext).code == ResponseCode.SUCCESS
            except OSError:
                return False

        try:
            wait_until(answers, what=f"{self.release} {address}")
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {process.story()}") from None
