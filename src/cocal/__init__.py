"""CoCal: Companion Confidence Calibration, as a reproducible workflow and a library.

Importing the package is free: every sub-package imports its heavy libraries on its own.
"""

__version__ = "0.1.0"
