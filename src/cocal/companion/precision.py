"""The precision of matrix products on a GPU (`companion.matmul`)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch


@contextmanager
def matmul_precision(precision: Literal["float32", "tf32"]) -> Iterator[None]:
    """Set the precision of float32 matrix products on a GPU within the context."""
    products = torch.backends.cuda.matmul
    before = products.fp32_precision
    products.fp32_precision = "tf32" if precision == "tf32" else "ieee"
    try:
        yield
    finally:
        products.fp32_precision = before
