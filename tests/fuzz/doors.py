"""Fuzzing of what stands at the doors: the first bytes of a connection, certificates, users' files.

Functions of bytes, as in `targets`.
"""

from __future__ import annotations

import asyncio
import atexit
import re
import shutil
import socket
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from dueline.broker.access.subject import name_in
from dueline.errors import BrokerError, InvalidRequest, Unauthenticated
from dueline.server.connections import Connections
from dueline.server.tls import Entrance, EntranceOptions, Tls, TlsOptions
from dueline.takeover.plain_acl import parse_plain_acl

MODES: Final = ("permissive", "enforcing", "disabled")
REFUSED: Final = b"no plain text here"
_USER: Final = re.compile(r"[A-Za-z0-9_.%|+-][A-Za-z0-9_.@%|+-]{0,63}")
_FAILURE: Final = bytes([0x15, 3, 1, 0, 2, 2, 40])


def plain_acl(data: bytes) -> None:
    """Users of a RocketMQ broker."""
    try:
        found = parse_plain_acl(data.decode("utf-8", "replace"), "plain_acl.yml")
    except InvalidRequest as error:
        _check_words(error)
        return
    for account in found.accounts:
        assert account.name
        assert account.secret
        for policy in account.policies:
            assert policy.decision in ("Allow", "Deny")
            assert policy.resource.partition(":")[0] in ("Topic", "Group")


def _check_words(error: BrokerError, name: str = "") -> None:
    """A refusal is short, whatever is refused, and names what it is about."""
    assert len(error.message) < 1_000, error
    assert name in error.message, error


def subject(data: bytes) -> None:
    """The user of a certificate, from the `name=value` lines of its subject."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    pairs = [(name, value) for name, _, value in (line.partition("=") for line in lines)]
    names = [value for name, value in pairs if name == "commonName"]
    is_user = len(names) == 1 and _USER.fullmatch(names[0]) is not None
    try:
        found = name_in({"subject": tuple((pair,) for pair in pairs)})
    except Unauthenticated as error:
        assert not is_user, names
        _check_words(error)
        return
    assert is_user, names
    assert [found] == names


def certificate(data: bytes) -> None:
    """The operator's files: the first byte says whether a chain or the authorities of clients."""
    folder, made = _made()
    path = folder / "fuzzed.pem"
    path.write_bytes(data[1:])
    is_chain = data[:1] < b"\x80"
    options = TlsOptions(
        certificate=str(path if is_chain else made.paths.chain),
        private_key=str(made.paths.private_key),
        client_ca=None if is_chain else str(path),
    )
    try:
        Tls(options, folder)
    except InvalidRequest as error:
        _check_words(error, str(path))


@lru_cache(maxsize=1)
def _made() -> tuple[Path, Tls]:
    folder = Path(tempfile.mkdtemp(prefix="dueline-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder, Tls(TlsOptions(), folder)


class _Echo(asyncio.Protocol):
    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


def entrance(data: bytes) -> None:
    """The first bytes of a connection; the first one says which mode, and where they are cut."""
    if not data:
        return
    mode, step, stream = MODES[data[0] % 3], data[0] // 3 + 1, data[1:]
    said = _loop().run_until_complete(_said(mode, [stream[:step], stream[step:]]))
    if not stream:
        assert said == b""
    elif stream[0] == 0x16:
        # Whatever TLS says to it, the protocol behind the entrance has not seen it.
        assert said == _FAILURE if mode == "disabled" else said != stream
    else:
        assert said == (REFUSED if mode == "enforcing" else stream), (mode, said)


@lru_cache(maxsize=1)
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop


@lru_cache(maxsize=len(MODES))
def _tls(mode: str) -> Tls:
    return Tls(TlsOptions(mode=mode), _made()[0])


async def _said(mode: str, pieces: list[bytes]) -> bytes:
    """What a peer hears that sends these pieces, and no more."""
    options = EntranceOptions(name="fuzz", make=_Echo, refuse_plain=lambda first: REFUSED)
    way_in = Entrance(options, _tls(mode), Connections(10))
    ours, theirs = socket.socketpair()
    loop = asyncio.get_running_loop()
    await loop.connect_accepted_socket(way_in, theirs)
    reader, writer = await asyncio.open_connection(sock=ours)
    try:
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0)
        writer.write_eof()
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()
        while way_in.newcomers:  # noqa: ASYNC110 - a turn of the loop or two
            await asyncio.sleep(0)
