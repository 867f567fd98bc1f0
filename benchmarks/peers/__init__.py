"""Dueline beside what people would pick instead, on the same machine in the same run."""
