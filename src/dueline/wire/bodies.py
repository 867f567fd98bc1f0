"""JSON bodies of what clients, brokers and name servers exchange.

Names follow the protocol where a person would look for them. `dueline.wire.admin_bodies` has
those of the tools, `dueline.wire.batch` the body of a batch of messages, which is not JSON.
"""

from __future__ import annotations

import base64
from dataclasses import field
from typing import Final

from dueline.errors import InvalidRequest
from dueline.wire.body import Body, JsonValue, body, json_name

__all__ = [
    "AckBatch",
    "AckEntry",
    "BrokerData",
    "CheckClientConfig",
    "ConsumerData",
    "ConsumerList",
    "Heartbeat",
    "LockRequest",
    "LockResult",
    "MessageQueue",
    "ProducerData",
    "QueryAssignment",
    "QueueAssignment",
    "QueueAssignments",
    "QueueData",
    "RouteData",
    "SetRequestMode",
    "SubscriptionData",
]

BITS_SIZE_BYTES_MAX: Final = 128


@body
class MessageQueue(Body):
    """One queue of a topic on one broker; also a key of maps."""

    broker_name: str
    queue_id: int
    topic: str


@body
class BrokerData(Body):
    """Where a broker listens: addresses by broker id, 0 the master."""

    broker_addrs: dict[int, str]
    broker_name: str
    cluster: str = ""
    enable_acting_master: bool | None = None
    zone_name: str | None = None


@body
class QueueData(Body):
    """How many queues a topic has on one broker, and what may be done with them."""

    broker_name: str
    perm: int
    read_queue_nums: int
    write_queue_nums: int
    topic_sys_flag: int = 0


@body
class RouteData(Body):
    """The answer to 105. Go's client cuts `brokerAddrs` by hand: it must stay compact and flat."""

    broker_datas: list[BrokerData]
    filter_server_table: dict[str, list[str]] = field(default_factory=dict)
    queue_datas: list[QueueData]
    order_topic_conf: str | None = None


@body
class SubscriptionData(Body):
    """What a group wants of a topic; Go writes `codeSet` as strings."""

    topic: str
    sub_string: str
    sub_version: int = 0
    class_filter_mode: bool = False
    code_set: frozenset[int] = frozenset()
    tags_set: frozenset[str] = frozenset()
    expression_type: str = "TAG"


@body
class ConsumerData(Body):
    """One consumer group of a client."""

    group_name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscription_data_set: list[SubscriptionData] = field(default_factory=list)
    unit_mode: bool = False


@body
class ProducerData(Body):
    """One producer group of a client."""

    group_name: str


@body
class Heartbeat(Body):
    """34: who a client is and which groups it speaks for."""

    client_id: str = json_name("clientID")
    producer_data_set: list[ProducerData] = field(default_factory=list)
    consumer_data_set: list[ConsumerData] = field(default_factory=list)
    heartbeat_fingerprint: int = 0
    without_sub: bool = json_name("withoutSub", default=False)


@body
class ConsumerList(Body):
    """The answer to 38."""

    consumer_id_list: list[str] = field(default_factory=list)


@body
class LockRequest(Body):
    """41 and 42: lock or unlock queues for one client of an orderly group."""

    client_id: str
    consumer_group: str
    queues: frozenset[MessageQueue] = json_name("mqSet", default=frozenset())
    only_this_broker: bool | None = None


@body
class LockResult(Body):
    """The answer to 41: the queues that the client now holds."""

    queues: frozenset[MessageQueue] = json_name("lockOKMQSet", default=frozenset())


@body
class CheckClientConfig(Body):
    """46: may this client filter so?"""

    client_id: str
    group: str
    subscription_data: SubscriptionData
    namespace: str | None = None


@body
class QueryAssignment(Body):
    """400: which queues shall this client consume?"""

    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str | None = None
    message_model: str = "CLUSTERING"


@body
class QueueAssignment(Body):
    """One queue of an assignment; `mode` is PULL or POP, queue -1 any."""

    message_queue: MessageQueue
    mode: str = "PULL"
    attachments: dict[str, str] | None = None


@body
class QueueAssignments(Body):
    """The answer to 400."""

    message_queue_assignments: list[QueueAssignment] = field(default_factory=list)


@body
class SetRequestMode(Body):
    """401: from now on a group pulls or pops a topic."""

    topic: str
    consumer_group: str
    mode: str
    pop_share_queue_num: int = 0


@body
class AckEntry(Body):
    """Acknowledgements of one pop: bit `i` of `bits` is the message at `start_offset + i`."""

    consumer_group: str = json_name("c")
    topic: str = json_name("t")
    retry: str = json_name("r")
    start_offset: int = json_name("so")
    queue_id: int = json_name("q")
    revive_queue_id: int = json_name("rq")
    pop_time: int = json_name("pt")
    invisible_time: int = json_name("it")
    bits: JsonValue = json_name("b", default=None)

    def places(self) -> list[int]:
        """The bits that are set, counted from the lowest of the first byte.

        Java writes a `BitSet` as bytes: as base64 with fastjson, as numbers with fastjson 2.

        Raises:
            InvalidRequest: not that, or more of them than one pop can have given out.
        """
        data = b""
        try:
            if isinstance(self.bits, str):
                data = base64.b64decode(self.bits, validate=True)
            elif isinstance(self.bits, list):
                data = bytes(byte & 0xFF for byte in self.bits)
        except (TypeError, ValueError) as error:
            raise InvalidRequest(
                f"acks: expected bytes as base64 or numbers, found {self.bits!r:.80}"
            ) from error
        if len(data) > BITS_SIZE_BYTES_MAX:
            raise InvalidRequest(
                f"acks: expected at most {8 * BITS_SIZE_BYTES_MAX} bits, found {8 * len(data)}"
            )
        value = int.from_bytes(data, "little")
        return [place for place in range(value.bit_length()) if value >> place & 1]


@body
class AckBatch(Body):
    """200151."""

    broker_name: str | None = None
    acks: list[AckEntry] = field(default_factory=list)
