"""Messages between two processes on one machine: the length of a JSON header, the header, and arrays of numbers.

Both processes load this file, and vLLM's environment lacks cocal, so it may import only the standard library.
"""

import json
import struct
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

_LENGTH = struct.Struct("<Q")
_MAX_HEADER_BYTES = 2**24
"""A longer header is taken for an invalid message."""


def send(stream: BinaryIO, header: dict[str, Any], *arrays: array) -> None:
    """Write a message.

    Args:
        stream: Buffered binary stream.
        header: JSON object.
        arrays: Arrays of numbers, which are sent in this machine's byte order.
    """
    head = json.dumps({"header": header, "arrays": [[a.typecode, len(a)] for a in arrays]}).encode()
    stream.write(_LENGTH.pack(len(head)))
    stream.write(head)
    for numbers in arrays:
        stream.write(numbers)
    stream.flush()


def receive(stream: BinaryIO) -> tuple[dict[str, Any], list[array]] | None:
    """Read the next message; return None if the stream ends, even within a message, or holds no valid message."""
    length = stream.read(_LENGTH.size)
    if len(length) < _LENGTH.size or (size := _LENGTH.unpack(length)[0]) > _MAX_HEADER_BYTES:
        return None
    head = stream.read(size)
    try:
        message = json.loads(head)
        arrays = []
        for code, count in message["arrays"]:
            numbers = array(code)
            numbers.frombytes(stream.read(count * numbers.itemsize))
            if len(numbers) < count:
                return None
            arrays.append(numbers)
    except ValueError:
        return None
    return message["header"], arrays


def flat(code: str, rows: Iterable[Sequence]) -> tuple[array, array]:
    """Concatenate rows of different lengths into one array of type `code`; return it and the lengths."""
    numbers, lengths = array(code), array("q")
    for row in rows:
        numbers.extend(row)
        lengths.append(len(row))
    return numbers, lengths


def rows(numbers: array, lengths: array) -> list[array]:
    """Split an array into rows of the given lengths; this undoes `flat`."""
    found, start = [], 0
    for length in lengths:
        found.append(numbers[start : start + length])
        start += length
    return found
