"""Dueline: a delayed-message broker.

A producer sends a message now; consumers receive it when it is due.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
