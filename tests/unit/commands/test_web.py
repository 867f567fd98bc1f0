"""`dueline web` as a process of its own."""

import json
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.serve.conftest import clean_environment
from tests.unit.server.local import running, small_config
from tests.waiting import PATIENCE_S

from dueline.cli import main


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "scheme"), [("permissive", "http"), ("enforcing", "https")])
def test_it_serves_until_its_input_is_closed(tmp_path: Path, mode: str, scheme: str) -> None:
    words = ("--http", "127.0.0.1:0", "--json", "--tethered")
    certificate = str(tmp_path / "tls" / "certificate.pem")
    settings = {"DUELINE_DATA": str(tmp_path), "DUELINE_TLS_MODE": mode}
    if mode == "enforcing":
        settings["DUELINE_CA"] = certificate
    with running(small_config(tmp_path, **{"tls.mode": mode})) as broker:
        process = subprocess.Popen(
            [sys.executable, "-m", "dueline", "web", "--broker", broker.address, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment(**settings),
        )
        assert process.stdin is not None
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        url = told["url"]
        context = ssl.create_default_context(cafile=certificate)
        with urllib.request.urlopen(
            f"{url}api/v1/report", timeout=PATIENCE_S, context=context
        ) as answer:
            report = json.load(answer)
        process.stdin.close()
        status = process.wait(PATIENCE_S)
        process.stdout.close()

    assert told["type"] == "ready"
    assert url in told["text"]
    assert url.startswith(f"{scheme}://127.0.0.1:")
    assert report["pending"] == 0
    assert status == 0


@pytest.mark.parametrize(
    ("address", "said"),
    [("0.0.0.0:8080", "expected an address of loopback"), ("off", "found off")],
)
def test_where_it_cannot_listen_is_refused(
    capsys: pytest.CaptureFixture[str], address: str, said: str
) -> None:
    assert main(["web", "--broker", "127.0.0.1:1", "--http", address]) == 2
    assert said in capsys.readouterr().err
