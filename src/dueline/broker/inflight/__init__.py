"""Messages in flight: received by somebody, and not acknowledged yet.

inflight.py     the verbs: take, acknowledge, extend, give back
holding.py      the values: how a message is held, a held message
receipt.py      what a consumer shows to acknowledge
lane.py         what a group has in flight from one queue; lane_set.py: from one topic
lanes.py        all of them, beside the offsets of consumers that pull
taking.py       one look for messages
log.py          the file of receipts
"""

from dueline.broker.inflight.holding import Held, Holding, Taken
from dueline.broker.inflight.inflight import InFlight
from dueline.broker.inflight.receipt import InvalidReceipt, Receipt

__all__ = ["Held", "Holding", "InFlight", "InvalidReceipt", "Receipt", "Taken"]
