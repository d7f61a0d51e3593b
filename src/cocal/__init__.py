"""CoCal: Companion Confidence Calibration, as a reproducible workflow and a library.

Importing the package is cheap: every sub-package imports heavy libraries only when it needs them, and `cocal.Companion`
is imported when it is first used.
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
