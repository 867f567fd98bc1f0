"""The 5.x client protocol: gRPC service `apache.rocketmq.v2.MessagingService`.

schema.py       the protocol's messages: names, field numbers, types
stubs.py        message classes made from the schema
codes.py        status codes, and the one table from our errors to them
convert.py      protocol messages to store messages and back
clients.py      who is connected, what they said about themselves, how to reach them
routes.py sending.py receiving.py telemetry.py transactions.py     the methods, by subject
service.py      all methods under their names, and the one way to them that every call takes
call.py         one call: what it says, how it is answered;  reception.py, framing.py  its bytes
link.py         one connection, on `dueline.wire.http2`;  peer.py  its other end
listener.py     all connections;  hoard.py  what they make us keep;  server.py  start and stop
"""
