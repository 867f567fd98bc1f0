"""What every messaging protocol shares: topics, groups, offsets, locks, retries, transactions.

Above the store and below the servers; knows no sockets and no event loop.
"""

from dueline.broker.broker import Broker, BrokerOptions
from dueline.store import Observer

__all__ = ["Broker", "BrokerOptions", "Observer"]
