"""A client for Dueline and for Apache RocketMQ, on the 4.x protocol; light to import.

Producer, AsyncProducer      send, send_many, send_each, cancel; delays by duration, level or time
Consumer, AsyncConsumer      a handler per message, shared by a group, with retries
Reader, AsyncReader          every message of a topic
"""

from dueline.client.blocking import Consumer, Producer, Reader
from dueline.client.consumer import AsyncConsumer
from dueline.client.producer import AsyncProducer
from dueline.client.reader import AsyncReader
from dueline.client.values import Outgoing, Received, Sent

__all__ = [
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncReader",
    "Consumer",
    "Outgoing",
    "Producer",
    "Reader",
    "Received",
    "Sent",
]
