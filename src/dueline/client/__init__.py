"""A client for Dueline and for Apache RocketMQ, on the 4.x protocol; light to import.

Producer, AsyncProducer               send now or for later, find, count, move and take back
Consumer, AsyncConsumer               a handler per message or batch, shared by a group, retries
SimpleConsumer, AsyncSimpleConsumer   take messages and acknowledge each: queues of work
Reader, AsyncReader                   every message of a topic

Each pair is one definition: the methods of the blocking class are made from the asyncio class.
"""

from dueline.client.blocking import Consumer, Producer, Reader, SimpleConsumer
from dueline.client.consumer import AsyncConsumer, BatchHandler
from dueline.client.delayed import Changed, Outcome, Pending, Scheduled, State
from dueline.client.producer import AsyncProducer
from dueline.client.reader import AsyncReader
from dueline.client.simple_consumer import AsyncSimpleConsumer, Taken
from dueline.client.values import Outgoing, Received, Sent
from dueline.credentials import Credentials
from dueline.tls import ClientTls

__all__ = [
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncReader",
    "AsyncSimpleConsumer",
    "BatchHandler",
    "Changed",
    "ClientTls",
    "Consumer",
    "Credentials",
    "Outcome",
    "Outgoing",
    "Pending",
    "Producer",
    "Reader",
    "Received",
    "Scheduled",
    "Sent",
    "SimpleConsumer",
    "State",
    "Taken",
]
