"""Compares our schema with the definitions in the official client; prints the differences."""

# mypy: ignore-errors
# It runs with the client's own interpreter, which has no types for it.

import json
import sys

from rocketmq.grpc_protocol import definition_pb2, service_pb2

from dueline.server.grpc.schema import ENUMS, METHODS
from dueline.server.grpc.stubs import build_pool

THEIRS = (service_pb2.DESCRIPTOR, definition_pb2.DESCRIPTOR)


def theirs(kind, name):
    return next((table[name] for file in THEIRS if name in (table := getattr(file, kind))), None)


def shape(field):
    return (field.name, field.number, field.type, field.is_repeated, field.has_presence)


def differences():
    ours = build_pool().FindFileByName("dueline/messaging_service.proto")
    for name, message in ours.message_types_by_name.items():
        other = theirs("message_types_by_name", name)
        if other is None:
            yield f"{name}: unknown"
            continue
        known = {shape(field) for field in other.fields}
        for field in message.fields:
            if shape(field) not in known:
                yield f"{name}: {shape(field)}"
    for name, values in ENUMS.items():
        other = theirs("enum_types_by_name", name)
        for value, number in values.items():
            if other.values_by_name[value].number != number:
                yield f"{name}.{value}"
    service = service_pb2.DESCRIPTOR.services_by_name["MessagingService"]
    for name, (request, answer) in METHODS.items():
        method = service.methods_by_name[name]
        found = (
            "*" * method.client_streaming + method.input_type.name,
            "*" * method.server_streaming + method.output_type.name,
        )
        if found != (request, answer):
            yield f"{name}: {found}"


json.dump({"event": "compared", "differences": list(differences())}, sys.stdout)
