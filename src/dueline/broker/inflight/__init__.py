"""Messages in flight: received by somebody, and not acknowledged yet.

    receiving.py     the verbs of consumers: receive, extend, refuse, forward to the dead letters
    inflight.py      the state and its verbs: take, acknowledge, extend, give back
    dead_letters.py  messages that were tried too often
    holding.py       the values: how a message is held, a held message
    receipt.py       what a consumer shows to acknowledge
    lane.py          what a group has in flight from one queue; lane_set.py: from one topic
    lanes.py         all of them, beside the offsets of consumers that pull
    taking.py        one look for messages
    log.py           the file of receipts

It belongs to no protocol: what one receives the other may acknowledge.
"""

from dueline.broker.inflight.holding import Ack, Held, Holding, Outcomes, Plain, Taken
from dueline.broker.inflight.inflight import InFlight
from dueline.broker.inflight.receipt import InvalidReceipt, Receipt
from dueline.broker.inflight.receiving import ACK_COUNT_MAX, Receive, ReceiveRequest, Receiving

__all__ = [
    "ACK_COUNT_MAX",
    "Ack",
    "Held",
    "Holding",
    "InFlight",
    "InvalidReceipt",
    "Outcomes",
    "Plain",
    "Receipt",
    "Receive",
    "ReceiveRequest",
    "Receiving",
    "Taken",
]
