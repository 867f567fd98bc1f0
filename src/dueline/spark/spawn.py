"""Asks the zygote for a Python process: what Spark starts instead of `python`.

`python -I -S spawn.py SOCKET PYTHON -m module …`: arguments, environment, folder and the three
standard files go to the zygote (`dueline.spark.zygote`) over its socket. This process stays as long
as the one it asked for runs, and ends with its status; if this one is ended, so is that. It imports
next to nothing, since Spark waits for it. Without a zygote it becomes the ordinary Python.
"""

import marshal
import os
import socket
import sys

__all__ = ["main"]

STATUS_SIZE = 4


def main(socket_path: str, python: str, arguments: list[str]) -> int:
    """Run `python` with these arguments by way of the zygote; returns its status."""
    if arguments[:1] != ["-m"]:
        os.execv(python, [python, *arguments])
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as zygote:
        try:
            zygote.connect(socket_path)
            request = marshal.dumps((arguments[1:], dict(os.environ), os.getcwd()))  # noqa: PTH109 - pathlib takes as long as all the rest
            size = len(request).to_bytes(4, "big")
            socket.send_fds(zygote, [size], [0, 1, 2])
            zygote.sendall(request)
        except OSError as error:
            print(f"started without the zygote: {error}", file=sys.stderr, flush=True)  # noqa: T201
            os.execv(python, [python, *arguments])
        for descriptor in (0, 1, 2):  # only the other one holds them now
            os.close(descriptor)
        status = zygote.recv(STATUS_SIZE)
    return int.from_bytes(status, "big") if len(status) == STATUS_SIZE else 1


if __name__ == "__main__":
    os._exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
