"""Digests of files within the files themselves.

A sealed file, also one of safetensors, keeps its provenance as text, in which `BLANK` is room for a digest; `seal`
computes it over the finished file, with the room still blank, and puts it there. A reader that computes it again
notices every changed byte, also those outside the checksums of the format (Parquet's cover pages, but no headers).
"""

import hashlib
import mmap
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cocal.errors import ContractError
from cocal.store.damage import remedy

BLANK = "seal:" + "0" * 64
"""Value of the attribute `SEAL` in a file that is not sealed yet."""
_MARK = re.compile(rb"seal:[0-9a-f]{64}")
_SEARCHED = 8 * 2**20
"""Number of bytes at either end of a file in which its provenance is sought."""


def seal(path: str | Path) -> None:
    """Put the digest of a finished file into the file, whose provenance holds `BLANK` once."""
    with Path(path).open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as content:
        place = _place(content)
        content[place : place + len(BLANK)] = _seal_of(content, place)


def stated_seal(path: str | Path) -> str | None:
    """The digest that a sealed file states, 64 hexadecimal digits, without checking its content; None if unsealed."""
    with _mapped(path) as content:
        place = _place(content)
        return None if place is None else content[place + len("seal:") : place + len(BLANK)].decode()


def check_seal(path: str | Path) -> bool:
    """Compare a file with the digest that it states, and return whether it states one. Raises a ContractError if a byte
    has changed since."""
    with _mapped(path) as content:
        place = _place(content)
        changed = place is not None and content[place : place + len(BLANK)] != _seal_of(content, place)
    if changed:
        raise ContractError(
            f"{path}: the file has changed since it was written (its content does not match its seal); {remedy(path)}"
        )
    return place is not None


@contextmanager
def _mapped(path: str | Path) -> Iterator[mmap.mmap | bytes]:
    """The bytes of a file, mapped into memory so that only those that are used are read."""
    with Path(path).open("rb") as stream:
        if not stream.read(1):  # an empty file cannot be mapped
            yield b""
            return
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield content


def _place(content: mmap.mmap | bytes) -> int | Any:
    """Where the seal begins, None without one; it is sought from the end of the last bytes, then in the first ones."""
    for start in (max(len(content) - _SEARCHED, 0), 0):
        place = content.rfind(b"seal:", start, start + _SEARCHED)
        while place >= 0:
            if _MARK.match(content, place):
                return place
            place = content.rfind(b"seal:", start, place)
    return None


def _seal_of(content: mmap.mmap | bytes, place: int) -> bytes:
    """The right seal of a file: the SHA-256 of its bytes, with the seal itself taken for blank."""
    digest = hashlib.sha256()
    with memoryview(content) as view, view[:place] as before, view[place + len(BLANK) :] as after:
        for part in (before, BLANK.encode(), after):
            digest.update(part)
    return b"seal:" + digest.hexdigest().encode()
