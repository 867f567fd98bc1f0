"""Who a client says it is: a name and a secret, from a variable or a file, never from a flag.

    DUELINE_TOKEN=name:secret          or          DUELINE_TOKEN_FILE=/path/of/a/file/with/it

Commands, the Python client and Spark's processes look here. A secret on a command line would be in
the process list and in the shell's history, so no flag takes one.

    >>> Credentials.parse("billing:a secret", where="test").name
    'billing'
    >>> Credentials.parse("billing:a secret", where="test")
    Credentials(name='billing')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from dueline.errors import InvalidRequest

__all__ = ["TOKEN", "TOKEN_FILE", "Credentials"]

TOKEN: Final = "DUELINE_TOKEN"
TOKEN_FILE: Final = "DUELINE_TOKEN_FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A user's name and secret; the secret is not shown."""

    name: str
    secret: str = field(repr=False)

    @classmethod
    def parse(cls, text: str, *, where: str) -> Self:
        """Read `name:secret`.

        Raises:
            InvalidRequest: says where it stands and what was expected, and not what was found.
        """
        name, colon, secret = text.strip().partition(":")
        if not name or not colon or not secret or not text.isascii():
            raise InvalidRequest(
                f"{where}: expected a user's name and secret as name:secret, found something else"
            )
        return cls(name=name, secret=secret)

    @classmethod
    def read(cls, path: Path, *, where: str) -> Self:
        """Read a file with `name:secret` in it.

        Raises:
            InvalidRequest: it cannot be read, or holds something else.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequest(
                f"{where}: expected a file that can be read, found {path}: {error}"
            ) from error
        return cls.parse(text, where=f"{where}: {path}")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self | None:
        """What the variables say; None: nothing.

        Raises:
            InvalidRequest: they cannot be read.
        """
        if text := environ.get(TOKEN):
            return cls.parse(text, where=TOKEN)
        if path := environ.get(TOKEN_FILE):
            return cls.read(Path(path), where=TOKEN_FILE)
        return None

    @property
    def token(self) -> str:
        """Both in one piece, as bearer tokens are."""
        return f"{self.name}:{self.secret}"
