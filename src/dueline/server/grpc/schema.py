"""The protocol's definitions: every message with its fields, in a notation of one line each.

    Resource: 1 resource_namespace string, 2 name string

is a message with two fields. `*` before a type means repeated, `map` a map of strings, and
`oneof(name)` behind a type that only one of the fields with that name is set. A name that is no
scalar type is another message or an enumeration of this file, or one of protobuf's own
`Timestamp` and `Duration`.

These are facts about a protocol that others defined: names and numbers must be theirs, or no
client understands a word. Fields that this server neither reads nor writes are left out; protobuf
skips what it does not know.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ENUMS", "MESSAGES", "METHODS", "PACKAGE", "SERVICE"]

PACKAGE: Final = "apache.rocketmq.v2"
SERVICE: Final = f"{PACKAGE}.MessagingService"

# Method: request, answer; a star marks a stream.
METHODS: Final[dict[str, tuple[str, str]]] = {
    "QueryRoute": ("QueryRouteRequest", "QueryRouteResponse"),
    "Heartbeat": ("HeartbeatRequest", "HeartbeatResponse"),
    "SendMessage": ("SendMessageRequest", "SendMessageResponse"),
    "QueryAssignment": ("QueryAssignmentRequest", "QueryAssignmentResponse"),
    "ReceiveMessage": ("ReceiveMessageRequest", "*ReceiveMessageResponse"),
    "AckMessage": ("AckMessageRequest", "AckMessageResponse"),
    "ForwardMessageToDeadLetterQueue": (
        "ForwardMessageToDeadLetterQueueRequest",
        "ForwardMessageToDeadLetterQueueResponse",
    ),
    "PullMessage": ("PullMessageRequest", "*PullMessageResponse"),
    "UpdateOffset": ("UpdateOffsetRequest", "UpdateOffsetResponse"),
    "GetOffset": ("GetOffsetRequest", "GetOffsetResponse"),
    "QueryOffset": ("QueryOffsetRequest", "QueryOffsetResponse"),
    "EndTransaction": ("EndTransactionRequest", "EndTransactionResponse"),
    "Telemetry": ("*TelemetryCommand", "*TelemetryCommand"),
    "NotifyClientTermination": (
        "NotifyClientTerminationRequest",
        "NotifyClientTerminationResponse",
    ),
    "ChangeInvisibleDuration": (
        "ChangeInvisibleDurationRequest",
        "ChangeInvisibleDurationResponse",
    ),
    "RecallMessage": ("RecallMessageRequest", "RecallMessageResponse"),
}

ENUMS: Final[dict[str, dict[str, int]]] = {
    "AddressScheme": {"ADDRESS_SCHEME_UNSPECIFIED": 0, "IPv4": 1, "IPv6": 2, "DOMAIN_NAME": 3},
    "Permission": {"PERMISSION_UNSPECIFIED": 0, "NONE": 1, "READ": 2, "WRITE": 3, "READ_WRITE": 4},
    "FilterType": {"FILTER_TYPE_UNSPECIFIED": 0, "TAG": 1, "SQL": 2},
    "MessageType": {
        "MESSAGE_TYPE_UNSPECIFIED": 0,
        "NORMAL": 1,
        "FIFO": 2,
        "DELAY": 3,
        "TRANSACTION": 4,
    },
    "DigestType": {"DIGEST_TYPE_UNSPECIFIED": 0, "CRC32": 1, "MD5": 2, "SHA1": 3},
    "ClientType": {
        "CLIENT_TYPE_UNSPECIFIED": 0,
        "PRODUCER": 1,
        "PUSH_CONSUMER": 2,
        "SIMPLE_CONSUMER": 3,
        "PULL_CONSUMER": 4,
    },
    "Encoding": {"ENCODING_UNSPECIFIED": 0, "IDENTITY": 1, "GZIP": 2},
    "TransactionSource": {"SOURCE_UNSPECIFIED": 0, "SOURCE_CLIENT": 1, "SOURCE_SERVER_CHECK": 2},
    "TransactionResolution": {
        "TRANSACTION_RESOLUTION_UNSPECIFIED": 0,
        "COMMIT": 1,
        "ROLLBACK": 2,
    },
    "QueryOffsetPolicy": {"BEGINNING": 0, "END": 1, "TIMESTAMP": 2},
    # Status codes are read and written as numbers, see codes.py.
    "Code": {"CODE_UNSPECIFIED": 0},
}

MESSAGES: Final = """
Status: 1 code Code, 2 message string
Resource: 1 resource_namespace string, 2 name string
Address: 1 host string, 2 port int32
Endpoints: 1 scheme AddressScheme, 2 addresses *Address
Broker: 1 name string, 2 id int32, 3 endpoints Endpoints
MessageQueue: 1 topic Resource, 2 id int32, 3 permission Permission, 4 broker Broker,
    5 accept_message_types *MessageType
Digest: 1 type DigestType, 2 checksum string
DeadLetterQueue: 1 topic string, 2 message_id string
SystemProperties: 1 tag string?, 2 keys *string, 3 message_id string, 4 body_digest Digest,
    5 body_encoding Encoding, 6 message_type MessageType, 7 born_timestamp Timestamp,
    8 born_host string, 9 store_timestamp Timestamp?, 10 store_host string,
    11 delivery_timestamp Timestamp?, 12 receipt_handle string?, 13 queue_id int32,
    14 queue_offset int64?, 15 invisible_duration Duration?, 16 delivery_attempt int32?,
    17 message_group string?, 18 trace_context string?,
    19 orphaned_transaction_recovery_duration Duration?, 20 dead_letter_queue DeadLetterQueue?
Message: 1 topic Resource, 2 user_properties map, 3 system_properties SystemProperties, 4 body bytes
FilterExpression: 1 type FilterType, 2 expression string
SubscriptionEntry: 1 topic Resource, 2 expression FilterExpression

QueryRouteRequest: 1 topic Resource, 2 endpoints Endpoints
QueryRouteResponse: 1 status Status, 2 message_queues *MessageQueue

SendMessageRequest: 1 messages *Message
SendResultEntry: 1 status Status, 2 message_id string, 3 transaction_id string, 4 offset int64,
    5 recall_handle string
SendMessageResponse: 1 status Status, 2 entries *SendResultEntry

QueryAssignmentRequest: 1 topic Resource, 2 group Resource, 3 endpoints Endpoints
Assignment: 1 message_queue MessageQueue
QueryAssignmentResponse: 1 status Status, 2 assignments *Assignment

ReceiveMessageRequest: 1 group Resource, 2 message_queue MessageQueue,
    3 filter_expression FilterExpression, 4 batch_size int32, 5 invisible_duration Duration?,
    6 auto_renew bool, 7 long_polling_timeout Duration?, 8 attempt_id string?
ReceiveMessageResponse: 1 status Status oneof(content), 2 message Message oneof(content),
    3 delivery_timestamp Timestamp oneof(content)

AckMessageEntry: 1 message_id string, 2 receipt_handle string
AckMessageRequest: 1 group Resource, 2 topic Resource, 3 entries *AckMessageEntry
AckMessageResultEntry: 1 message_id string, 2 receipt_handle string, 3 status Status
AckMessageResponse: 1 status Status, 2 entries *AckMessageResultEntry

ForwardMessageToDeadLetterQueueRequest: 1 group Resource, 2 topic Resource,
    3 receipt_handle string, 4 message_id string, 5 delivery_attempt int32,
    6 max_delivery_attempts int32
ForwardMessageToDeadLetterQueueResponse: 1 status Status

HeartbeatRequest: 1 group Resource, 2 client_type ClientType
HeartbeatResponse: 1 status Status

EndTransactionRequest: 1 topic Resource, 2 message_id string, 3 transaction_id string,
    4 resolution TransactionResolution, 5 source TransactionSource, 6 trace_context string
EndTransactionResponse: 1 status Status

NotifyClientTerminationRequest: 1 group Resource
NotifyClientTerminationResponse: 1 status Status

ChangeInvisibleDurationRequest: 1 group Resource, 2 topic Resource, 3 receipt_handle string,
    4 invisible_duration Duration, 5 message_id string
ChangeInvisibleDurationResponse: 1 status Status, 2 receipt_handle string

RecallMessageRequest: 1 topic Resource, 2 recall_handle string
RecallMessageResponse: 1 status Status, 2 message_id string

PullMessageRequest: 1 group Resource, 2 message_queue MessageQueue, 3 offset int64,
    4 batch_size int32, 5 filter_expression FilterExpression, 6 long_polling_timeout Duration
PullMessageResponse: 1 status Status oneof(content), 2 message Message oneof(content),
    3 next_offset int64 oneof(content)
UpdateOffsetRequest: 1 group Resource, 2 message_queue MessageQueue, 3 offset int64
UpdateOffsetResponse: 1 status Status
GetOffsetRequest: 1 group Resource, 2 message_queue MessageQueue
GetOffsetResponse: 1 status Status, 2 offset int64
QueryOffsetRequest: 1 message_queue MessageQueue, 2 query_offset_policy QueryOffsetPolicy,
    3 timestamp Timestamp?
QueryOffsetResponse: 1 status Status, 2 offset int64

ExponentialBackoff: 1 initial Duration, 2 max Duration, 3 multiplier float
CustomizedBackoff: 1 next *Duration
RetryPolicy: 1 max_attempts int32, 2 exponential_backoff ExponentialBackoff oneof(strategy),
    3 customized_backoff CustomizedBackoff oneof(strategy)
Publishing: 1 topics *Resource, 2 max_body_size int32, 3 validate_message_type bool
Subscription: 1 group Resource?, 2 subscriptions *SubscriptionEntry, 3 fifo bool?,
    4 receive_batch_size int32?, 5 long_polling_timeout Duration?
Metric: 1 on bool, 2 endpoints Endpoints
Settings: 1 client_type ClientType?, 2 access_point Endpoints?, 3 backoff_policy RetryPolicy?,
    4 request_timeout Duration?, 5 publishing Publishing oneof(pub_sub),
    6 subscription Subscription oneof(pub_sub), 8 metric Metric
RecoverOrphanedTransactionCommand: 1 message Message, 2 transaction_id string
TelemetryCommand: 1 status Status?, 2 settings Settings oneof(command),
    5 recover_orphaned_transaction_command RecoverOrphanedTransactionCommand oneof(command)
"""
