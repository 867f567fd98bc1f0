"""The answer to a send of one message, the frame that brokers write and senders read most often.

The same bytes as `SendResponse` inside a `Command`, at a tenth of the time: all but six values are
always the same, so they are filled into a pattern. Only JSON; a peer that writes binary headers
gets the usual way. Reading recognises the same pattern, and leaves all else to `Command.decode`.
"""

from __future__ import annotations

import re
from json.encoder import encode_basestring
from struct import Struct
from typing import Final

from dueline.wire.codes import VERSION_4_9_8, Language, Serialization
from dueline.wire.command import RESPONSE_FLAG, Command, new_command

__all__ = ["REGION", "encode_send_answer", "read_send_answer"]

REGION: Final = "DefaultRegion"

_PREFIX: Final = Struct(">II")
HEAD: Final = '{"code":0,"extFields":{"msgId":"'
MESSAGE_END: Final = '","queueId":"'
REST: Final = f'"MSG_REGION":"{REGION}","TRACE_ON":"true"}},"flag":1,"language":"JAVA","opaque":'
LAST: Final = f',"serializeTypeCurrentRPC":"JSON","version":{int(VERSION_4_9_8)}}}'
_JSON: Final = int(Serialization.JSON) << 24
_READ_SIZE_BYTES_MAX: Final = 4_096
_read: Final = re.compile(
    re.escape(HEAD) + r'([0-9A-F]+)","queueId":"([0-9]{1,10})","queueOffset":"([0-9]{1,19})",'
    r'"transactionId":"([ !#-\[\]-~]*)",(?:"recallHandle":"([A-Za-z0-9_=-]*)",)?'
    + re.escape(REST)
    + "(0|[1-9][0-9]{0,8})"
    + re.escape(LAST)
).fullmatch


def encode_send_answer(  # noqa: PLR0913 - the fields of the answer, in their order
    opaque: int,
    msg_id: str,
    queue_id: int,
    queue_offset: int,
    unique_id: str,
    recall_handle: str | None,
) -> bytes:
    """The whole frame.

    Args:
        unique_id: must be text that UTF-8 can carry.
    """
    recall = "" if recall_handle is None else f'"recallHandle":"{recall_handle}",'
    header = (
        f'{HEAD}{msg_id}{MESSAGE_END}{queue_id}","queueOffset":'
        f'"{queue_offset}","transactionId":{encode_basestring(unique_id)},{recall}'
        f"{REST}{opaque}{LAST}"
    ).encode()
    return _PREFIX.pack(4 + len(header), _JSON | len(header)) + header


def read_send_answer(data: bytes) -> Command | None:
    """What `Command.decode` reads in a frame that `encode_send_answer` has made; None: another.

    Args:
        data: what has come, from the beginning of a frame.
    """
    size = len(data)
    if not _PREFIX.size < size <= _READ_SIZE_BYTES_MAX:
        return None
    if _PREFIX.unpack_from(data) != (size - 4, _JSON | size - _PREFIX.size):
        return None
    found = _read(data[_PREFIX.size :].decode("latin-1"))
    if found is None:
        return None
    msg_id, queue_id, queue_offset, unique_id, handle, opaque = found.groups()
    ext = {
        "msgId": msg_id,
        "queueId": queue_id,
        "queueOffset": queue_offset,
        "transactionId": unique_id,
        "MSG_REGION": REGION,
        "TRACE_ON": "true",
    }
    if handle is not None:
        ext["recallHandle"] = handle
    fields = (0, Language.JAVA, VERSION_4_9_8, int(opaque), RESPONSE_FLAG, None, ext)
    return new_command(fields, b"", Serialization.JSON)
