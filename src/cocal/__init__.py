"""CoCal: Companion Confidence Calibration, as a reproducible workflow and a library.

Importing the package is free: every sub-package imports its heavy libraries on its own, and `cocal.Companion` when it
is asked for.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cocal.confidence.companion import Companion

__version__ = "0.1.0"
__all__ = ["Companion", "__version__"]


def __getattr__(name: str) -> object:
    if name != "Companion":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cocal.confidence.companion import Companion

    return Companion
