"""RocketMQ's 4.x protocol on TCP: a name server and a broker for its unmodified clients."""
