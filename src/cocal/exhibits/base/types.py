"""Types of heavy libraries, for annotations. They are `Any` in a running process, which so need not load them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from xarray import Dataset as Cube
else:
    Artist = Axes = Colormap = Cube = Figure = Line2D = Any
