import json

from dueline.broker.assignments import Assigned
from dueline.server.remoting.assignment import body_of


def test_each_queue_is_listed_with_the_mode() -> None:
    body = body_of(Assigned(mode="PULL", queue_ids=[0, 2]), "orders", "shard-1")

    assert json.loads(body.encode()) == {
        "messageQueueAssignments": [
            {
                "mode": "PULL",
                "messageQueue": {"brokerName": "shard-1", "queueId": queue_id, "topic": "orders"},
            }
            for queue_id in (0, 2)
        ]
    }
