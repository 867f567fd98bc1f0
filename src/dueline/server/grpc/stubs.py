"""Message classes, made from `schema` when this module is imported.

No generated files and no compiler: the schema becomes protobuf descriptors, and protobuf makes the
classes. The descriptors live in a pool of our own, not in the process-wide one, so that a program
may import the official Python client, with its own definitions of the same names, beside us.

    >>> ResourceClass = message_class("Resource")
    >>> bytes(ResourceClass(name="orders").SerializeToString())
    b'\\x12\\x06orders'
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.duration_pb2 import DESCRIPTOR as DURATION_FILE
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP_FILE

from dueline.server.grpc.schema import ENUMS, MESSAGES, PACKAGE

__all__ = ["build_pool", "message_class"]

_SCALARS: Final = {
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "float": descriptor_pb2.FieldDescriptorProto.TYPE_FLOAT,
}
_WELL_KNOWN: Final = ("Timestamp", "Duration")
_FIELD: Final = re.compile(r"(\d+) (\w+) (\*?)(\w+)(\??)(?: oneof\((\w+)\))?")


def message_class(name: str) -> Any:
    """The class of one of the schema's messages, or of `Timestamp` and `Duration`."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(_full_name(name)[1:]))


@cache
def _pool() -> Any:
    return build_pool()


def build_pool() -> Any:
    """A descriptor pool with the whole schema and what it refers to."""
    pool = descriptor_pool.DescriptorPool()
    for file in (TIMESTAMP_FILE, DURATION_FILE):
        pool.AddSerializedFile(file.serialized_pb)
    definition = descriptor_pb2.FileDescriptorProto(
        name="dueline/messaging_service.proto",
        package=PACKAGE,
        syntax="proto3",
        dependency=[TIMESTAMP_FILE.name, DURATION_FILE.name],
    )
    for name, values in ENUMS.items():
        enum = definition.enum_type.add(name=name)
        for value_name, number in values.items():
            enum.value.add(name=value_name, number=number)
    for line in re.sub(r",\n\s+", ", ", MESSAGES).split("\n"):
        if line:
            name, _, fields = line.partition(": ")
            _add_message(definition.message_type.add(name=name), fields)
    pool.AddSerializedFile(definition.SerializeToString())
    return pool


def _add_message(message: Any, fields: str) -> None:
    oneofs: dict[str, int] = {}
    optional = []
    for text in fields.split(", "):
        match = _FIELD.fullmatch(text)
        assert match is not None, f"schema of {message.name}: cannot read {text!r}"
        number, name, repeated, kind, is_optional, oneof = match.groups()
        field = message.field.add(name=name, number=int(number), json_name=name)
        field.label = field.LABEL_REPEATED if repeated or kind == "map" else field.LABEL_OPTIONAL
        if kind == "map":
            _make_map(message, field)
        elif kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            field.type = field.TYPE_ENUM if kind in ENUMS else field.TYPE_MESSAGE
            field.type_name = _full_name(kind)
        if oneof:
            if oneof not in oneofs:
                oneofs[oneof] = len(message.oneof_decl)
                message.oneof_decl.add(name=oneof)
            field.oneof_index = oneofs[oneof]
        if is_optional:
            optional.append(field)
    # What proto3 calls optional is a choice with one member; such choices come last.
    for field in optional:
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")


def _make_map(message: Any, field: Any) -> None:
    """A map is a repeated message of key and value, nested in the message."""
    entry_name = "".join(part.title() for part in field.name.split("_")) + "Entry"
    entry = message.nested_type.add(name=entry_name)
    entry.options.map_entry = True
    for number, name in ((1, "key"), (2, "value")):
        part = entry.field.add(name=name, number=number, json_name=name)
        part.label = part.LABEL_OPTIONAL
        part.type = part.TYPE_STRING
    field.type = field.TYPE_MESSAGE
    field.type_name = f"{_full_name(message.name)}.{entry_name}"


def _full_name(name: str) -> str:
    return f".google.protobuf.{name}" if name in _WELL_KNOWN else f".{PACKAGE}.{name}"
