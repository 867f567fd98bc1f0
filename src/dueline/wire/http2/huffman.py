"""The Huffman code of HTTP/2's headers (RFC 7541, 5.2 and appendix B).

The code is canonical: the length of each symbol's code says all. Codes of one length are numbers
in a row, in the order of their symbols, and the next length goes on where the one before ended.

Decoding goes byte by byte through a machine: a state is an inner node of the code's tree, and a
step says which symbols a byte completes and where it leads. There are 256 states and as many bytes;
a step is worked out when it is first needed and kept.
"""

from __future__ import annotations

from typing import Final

from dueline.wire.http2.faults import ErrorCode, Fault

__all__ = ["decode"]

# fmt: off
_LENGTHS: Final = (
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30,
    28, 28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5,
    7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22,
    22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23,
    22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22,
    21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26,
    26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20,
    24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27,
    27, 28, 27, 27, 27, 27, 27, 26, 30,
)
# fmt: on
_END: Final = 256
"""The symbol that ends a string; its first bits fill the last byte, and it never stands there."""
_PADDING_BITS_MAX: Final = 7

_Node = list[int]
"""Where a 0 and a 1 lead: another node, or -1 - symbol."""


def _tree() -> list[_Node]:
    nodes: list[_Node] = [[0, 0]]
    code, length_before = 0, 0
    for symbol in sorted(range(len(_LENGTHS)), key=lambda each: (_LENGTHS[each], each)):
        length = _LENGTHS[symbol]
        code <<= length - length_before
        _insert(nodes, symbol, code, length)
        code, length_before = code + 1, length
    return nodes


def _insert(nodes: list[_Node], symbol: int, code: int, length: int) -> None:
    at = 0
    for shift in range(length - 1, 0, -1):
        bit = code >> shift & 1
        if not nodes[at][bit]:
            nodes.append([0, 0])
            nodes[at][bit] = len(nodes) - 1
        at = nodes[at][bit]
    nodes[at][code & 1] = -1 - symbol


_NODES: Final = _tree()


def _padding_states() -> frozenset[int]:
    """Where a string may end: behind at most 7 bits of 1."""
    states, at = {0}, 0
    for _ in range(_PADDING_BITS_MAX):
        at = _NODES[at][1]
        states.add(at)
    return frozenset(states)


_ENDS: Final = _padding_states()
_steps: Final[dict[int, tuple[int, bytes]]] = {}
"""By state and byte: the next state, and the symbols on the way."""


def decode(data: bytes) -> bytes:
    """The string behind its code.

    Raises:
        Fault: it holds the symbol for the end, or ends with something else than padding.
    """
    state, found = 0, []
    for byte in data:
        step = _steps.get(state << 8 | byte)
        if step is None:
            step = _steps[state << 8 | byte] = _step(state, byte)
        state, symbols = step
        found.append(symbols)
    if state not in _ENDS:
        raise Fault(
            ErrorCode.COMPRESSION_ERROR, "Huffman code: expected up to 7 bits of 1 at its end"
        )
    return b"".join(found)


def _step(state: int, byte: int) -> tuple[int, bytes]:
    symbols = bytearray()
    for shift in range(7, -1, -1):
        state = _NODES[state][byte >> shift & 1]
        if state < 0:
            symbol = -1 - state
            if symbol == _END:
                raise Fault(ErrorCode.COMPRESSION_ERROR, "Huffman code: found the end's symbol")
            symbols.append(symbol)
            state = 0
    return state, bytes(symbols)
