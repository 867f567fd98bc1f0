"""Our schema against the definitions that the official client ships, in one process with them."""

from __future__ import annotations

import json
import os
import subprocess

from tests.interop import grpc_tour
from tests.waiting import PATIENCE_S

SOURCES = grpc_tour.HERE.parents[1] / "src"


def test_schema_has_the_official_names_numbers_and_types() -> None:
    result = subprocess.run(
        [str(grpc_tour.python_client()), str(grpc_tour.HERE / "grpc_python" / "schema.py")],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )

    assert json.loads(result.stdout) == {"event": "compared", "differences": []}
