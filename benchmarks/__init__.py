"""Benchmarks: each module runs with one command and prints what it measured."""
