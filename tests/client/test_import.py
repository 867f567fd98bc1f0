"""A process that sends and reads carries none of the broker's large packages."""

from __future__ import annotations

import subprocess
import sys

from tests.remoting.serving import RunningBroker

PROGRAM = """
import sys
from dueline.client import Consumer, Producer, Reader

with Producer(sys.argv[1]) as producer, Reader(sys.argv[1], "orders") as reader:
    sent = producer.send("orders", b"17", delay="1h")
    producer.cancel(sent)
    producer.send("orders", b"18")
    assert reader.receive().body == b"18"
large = ("numpy", "pyarrow", "pyspark", "grpc", "google.protobuf")
print(*[name for name in large if name in sys.modules])
"""


def test_a_client_imports_no_large_package(broker: RunningBroker) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, broker.name_server],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout.strip(), done.stderr) == ("", "")
