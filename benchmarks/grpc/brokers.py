"""Brokers with a 5.x port, each as a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.interop.apache import CLUSTER, Apache
from tests.interop.logback import write_logback
from tests.interop.remoting import Connection
from tests.ports import free_ports
from tests.waiting import wait_until

from dueline.wire import RequestCode, ResponseCode

__all__ = ["CALLERS", "TOPICS", "Running", "apache", "dueline"]

CALLERS = (1, 8, 64)
TOPICS = tuple(f"bench-{count}" for count in CALLERS)
SETTINGS = {"flushDiskType": "SYNC_FLUSH", "mappedFileSizeCommitLog": str(1 << 30)}
JVM = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC")

_PROGRAM = """
from tests.grpc.broker import main
try:
    from dueline import compiled
    from dueline.server.process import KERNELS
except ImportError:
    pass
else:
    compiled.load(KERNELS)
main()
"""
"""The broker, with its kernels as `dueline serve` has them; old work trees have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A broker that can be called."""

    name: str
    port: int
    pid: int

    def cpu_s(self) -> float:
        """Its processor time so far."""
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def dueline(name: str, tree: Path, folder: Path) -> Iterator[Running]:
    """The broker of a work tree."""
    command = [str(tree / ".venv/bin/python"), "-c", _PROGRAM, str(folder)]
    with subprocess.Popen(
        command,
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        port = json.loads(process.stdout.readline())["port"]
        yield Running(name=name, port=port, pid=process.pid)
        process.stdin.close()
        process.stdout.read()


@contextlib.contextmanager
def apache(folder: Path) -> Iterator[Running]:
    """Apache's broker and proxy in one process, on a disk that is as sure (sync flush)."""
    folder.mkdir(parents=True)
    with Proxy("proxy5", folder, settings=SETTINGS, jvm=JVM) as proxy:
        proxy.start_name_server()
        proxy.start_broker()
        assert proxy.broker_process is not None
        yield Running(name="Apache's proxy", port=proxy.port, pid=proxy.broker_process.pid)


class Proxy(Apache):
    """A name server, and a proxy with a broker in it (local mode)."""

    port = 0

    def start_broker(self) -> None:
        self.port, remoting_port = free_ports(2)
        for name in ("broker", "proxy"):
            write_logback(self.folder, name)
        broker = self._write_settings("broker.properties", self._broker_settings)
        proxy = self.folder / "proxy.json"
        proxy.write_text(
            json.dumps(
                {
                    "rocketMQClusterName": CLUSTER,
                    "proxyMode": "LOCAL",
                    "namesrvAddr": self.name_server,
                    "grpcServerPort": self.port,
                    "remotingListenPort": remoting_port,
                    "enableTopicMessageTypeCheck": False,
                }
            )
        )
        main = "org.apache.rocketmq.proxy.ProxyStartup"
        paths = ("-pm", "LOCAL", "-n", self.name_server, "-bc", str(broker), "-pc")
        self.broker_process = self._java(self._jvm, main, str(proxy), options=paths)
        wait_until(self._is_listening, what="Apache's proxy")
        for topic in (*TOPICS, "bench-send"):  # the proxy makes none by itself, nor a group
            self._make_topic(topic)
        self._make_group("bench")

    def _make_topic(self, topic: str) -> None:
        ext = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": "4",
            "writeQueueNums": "4",
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }
        with Connection(self.broker) as connection:
            answer = connection.call(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)
            assert answer.code == ResponseCode.SUCCESS, answer

    def _make_group(self, group: str) -> None:
        body = json.dumps({"groupName": group}).encode()
        with Connection(self.broker) as connection:
            code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTION_GROUP
            answer = connection.call(code, {}, body)
            assert answer.code == ResponseCode.SUCCESS, answer

    def _is_listening(self) -> bool:
        assert self.broker_process is not None
        assert self.broker_process.is_running, self.broker_process.story()
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False
