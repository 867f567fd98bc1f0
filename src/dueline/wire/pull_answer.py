"""The answer to a pull that found messages, up to its body, in one go.

The same bytes as `PullResponse` inside a `Command`, with five numbers filled into a pattern (see
`send_answer`). Only JSON; a peer that writes binary headers gets the usual way.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from dueline.wire.codes import VERSION_4_9_8, ResponseCode, Serialization

__all__ = ["FOUND_REMARK", "encode_found_head"]

FOUND_REMARK: Final = "FOUND"

_PREFIX: Final = Struct(">II")
_HEAD: Final = (
    f'{{"code":{int(ResponseCode.SUCCESS)},'
    '"extFields":{"suggestWhichBrokerId":"0","nextBeginOffset":"'
)
_LAST: Final = (
    f',"remark":"{FOUND_REMARK}","serializeTypeCurrentRPC":"JSON","version":{int(VERSION_4_9_8)}}}'
)
_JSON: Final = int(Serialization.JSON) << 24


def encode_found_head(
    opaque: int, next_offset: int, min_offset: int, max_offset: int, body_size_bytes: int
) -> bytes:
    """The frame up to its body, which has to fit into a frame."""
    header = (
        f'{_HEAD}{next_offset}","minOffset":"{min_offset}","maxOffset":"{max_offset}"}},'
        f'"flag":1,"language":"JAVA","opaque":{opaque}{_LAST}'
    ).encode()
    size = len(header)
    return _PREFIX.pack(4 + size + body_size_bytes, _JSON | size) + header
