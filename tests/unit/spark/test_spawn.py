"""What Spark starts for a Python asks the zygote; `test_zygote` has both together."""

import marshal
import socket
import subprocess
import sys
from pathlib import Path

from tests.waiting import PATIENCE_S

from dueline.spark import spawn


def test_arguments_environment_folder_and_files_are_sent_and_the_status_comes_back(
    tmp_path: Path,
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        with subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", spawn.__file__, str(tmp_path / "socket")),
                *("python", "-m", "module", "word"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=tmp_path,
            env={"A": "b"},
        ) as process:
            client, _ = listener.accept()
            with client:
                size, files, _, _ = socket.recv_fds(client, 4, 3)
                request = marshal.loads(client.recv(int.from_bytes(size, "big")))
                with socket.socket(fileno=client.detach()) as answering:
                    answering.sendall((7).to_bytes(4, "big"))
                    status = process.wait(PATIENCE_S)

    assert status == 7
    assert len(files) == 3
    arguments, environ, folder = request
    assert arguments == ["module", "word"]
    assert environ["A"] == "b"
    assert Path(folder) == tmp_path
