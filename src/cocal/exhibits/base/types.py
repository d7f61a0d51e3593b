"""Types of heavy libraries, for annotations. They are `Any` in a running process, which so need not load them."""

from typing import TYPE_CHECKING, Any

Artist = Axes = Colormap = Cube = Figure = Line2D = Any

if TYPE_CHECKING:
    pass
