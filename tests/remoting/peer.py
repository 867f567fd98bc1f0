"""A client made by hand: one connection and the requests of a producer or consumer."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.interop.remoting import Connection

from dueline.message import decode_properties, encode_properties
from dueline.store import Record
from dueline.store import record as records
from dueline.wire import Command, RequestCode

SUSPEND = 2
SUBSCRIPTION = 4


class Peer(Connection):
    """A connection that knows the usual requests, with plain names and numbers."""

    def respond(self, request: Command, body: bytes = b"") -> None:
        """Answer a question of the server."""
        self.send_raw(request.reply(code=0, body=body).encode())

    def send_message(  # noqa: PLR0913 - the fields of a send, all with defaults
        self,
        topic: str,
        body: bytes = b"body",
        *,
        queue_id: int = 0,
        group: str = "producer",
        sys_flag: int = 0,
        attempts: int = 0,
        names: Mapping[str, str] | None = None,
        **properties: str,
    ) -> Command:
        """Send one message; properties by keyword, or as `names`."""
        ext = self.send_ext(
            topic,
            queue_id=queue_id,
            group=group,
            sys_flag=sys_flag,
            attempts=attempts,
            properties={**(names or {}), **properties},
        )
        return self.call(RequestCode.SEND_MESSAGE_V2, ext, body)

    def send_ext(  # noqa: PLR0913 - the fields of a send, all with defaults
        self,
        topic: str,
        *,
        queue_id: int = 0,
        group: str = "producer",
        sys_flag: int = 0,
        attempts: int = 0,
        properties: Mapping[str, str] | None = None,
    ) -> dict[str, str]:
        return {
            "a": group,
            "b": topic,
            "c": "TBW102",
            "d": "4",
            "e": str(queue_id),
            "f": str(sys_flag),
            "g": "1700000000000",
            "h": "0",
            "i": encode_properties(dict(properties or {})).decode(),
            "j": str(attempts),
        }

    def pull_ext(  # noqa: PLR0913 - the fields of a pull, all with defaults
        self,
        topic: str,
        offset: int = 0,
        *,
        queue_id: int = 0,
        group: str = "group",
        suspend_ms: int = 0,
        expression: str | None = "*",
        kind: str = "TAG",
        commit: int | None = None,
    ) -> dict[str, str]:
        flags = 0 if commit is None else 1
        ext = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": str(queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": "32",
            "commitOffset": str(commit or 0),
            "suspendTimeoutMillis": str(suspend_ms),
            "subVersion": "0",
        }
        if suspend_ms:
            flags |= SUSPEND
        if expression is not None:
            flags |= SUBSCRIPTION
            ext |= {"subscription": expression, "expressionType": kind}
        return {**ext, "sysFlag": str(flags)}

    def pull(self, topic: str, offset: int = 0, **options: object) -> Command:
        ext = self.pull_ext(topic, offset, **options)  # type: ignore[arg-type]
        return self.call(RequestCode.PULL_MESSAGE, ext)

    def heartbeat(  # noqa: PLR0913 - the fields of a heartbeat, all with defaults
        self,
        client_id: str,
        *,
        group: str | None = None,
        subscriptions: Mapping[str, str] | None = None,
        version: int = 1,
        producer: str | None = None,
        model: str = "CLUSTERING",
    ) -> Command:
        body: dict[str, object] = {"clientID": client_id}
        if group is not None:
            body["consumerDataSet"] = [
                {
                    "groupName": group,
                    "consumeType": "CONSUME_PASSIVELY",
                    "messageModel": model,
                    "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                    "subscriptionDataSet": [
                        {"topic": topic, "subString": expression, "subVersion": version}
                        for topic, expression in (subscriptions or {}).items()
                    ],
                }
            ]
        if producer is not None:
            body["producerDataSet"] = [{"groupName": producer}]
        return self.call(RequestCode.HEART_BEAT, {}, json.dumps(body).encode())


def records_of(answer: Command) -> list[Record]:
    """The records in a pull's or query's body."""
    found = []
    data = memoryview(answer.body)
    while len(data):
        size = int.from_bytes(data[:4], "big")
        found.append(records.decode(data[:size]))
        data = data[size:]
    return found


def bodies_of(answer: Command) -> list[bytes]:
    return [record.body for record in records_of(answer)]


def properties_of(record: Record) -> dict[str, str]:
    return decode_properties(record.properties)
