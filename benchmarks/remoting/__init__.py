"""RocketMQ's 4.x protocol, measured: Dueline beside Apache's brokers, under one load generator."""
