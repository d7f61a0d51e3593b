"""Number formats of stored features: float32, and bfloat16, which NumPy and Zarr lack and which is stored as uint16."""

from typing import Literal

import numpy as np

NumberFormat = Literal["float32", "bfloat16"]

MISSING = {"float32": np.float32(np.nan), "bfloat16": np.uint16(0x7FC0)}
"""The fill value NaN, which is read where a chunk was lost. Writers refuse NaN, so it always marks missing data."""
LARGEST = {"float32": np.finfo(np.float32).max, "bfloat16": np.array(0x7F7F0000, np.uint32).view(np.float32)[()]}
"""The largest finite number of each format, as float32."""
# The bits of these numbers. Bit patterns without the sign sort like magnitudes; infinities and NaN sort last.
_LARGEST_BITS = {"float32": np.uint32(0x7F7FFFFF), "bfloat16": np.uint16(0x7F7F)}
_MAGNITUDE = {"float32": np.uint32(0x7FFFFFFF), "bfloat16": np.uint16(0x7FFF)}


def encoded(values: np.ndarray, form: NumberFormat) -> np.ndarray:
    """Convert finite float32 values to the stored form: float32, or bfloat16 bits as uint16, rounded to even."""
    if form == "float32":
        return values
    bits = np.ascontiguousarray(values).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def decoded(values: np.ndarray, form: NumberFormat) -> np.ndarray:
    """Convert stored values to float32."""
    if form == "float32":
        return values
    bits = values.astype(np.uint32)
    return np.left_shift(bits, 16, out=bits).view(np.float32)


def finite(values: np.ndarray, form: NumberFormat) -> np.ndarray:
    """Mark finite stored values in a bool array; the last dimension of the values must be contiguous."""
    largest = _LARGEST_BITS[form]
    return (values.view(largest.dtype) & _MAGNITUDE[form]) <= largest
