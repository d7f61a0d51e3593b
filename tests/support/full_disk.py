"""A disk that is full half-way."""

import resource
from contextlib import contextmanager


@contextmanager
def full_disk(count: int):
    """Bounds the size of files by a number of bytes, as a full disk would; gone at the end of the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
