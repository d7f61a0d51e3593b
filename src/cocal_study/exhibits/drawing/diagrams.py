"""A page of a diagram and the things drawn on it. Every length is in inches, counted from the bottom left of the page.

The colour says what is learnt: grey stands for the task, a method's colour for confidence. A heavy arrow changes
parameters, and a light arrow passes something on.
"""

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np

from cocal.drawing.style import INK, TEXT_WIDTH, Artist

TASK = "#6b6b6b"
"""Colour of everything that serves the task: the policy, its rewards and its updates."""
SMALL, LINE, HEAVY = 6.5, 0.6, 1.5
"""In points, the size of the smallest text, the width of every outline and light arrow, and that of an arrow that
changes parameters."""

Point = tuple[float, float]


class Rect(NamedTuple):
    """A rectangle with its centre (x, y)."""

    left: float
    bottom: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def top(self) -> float:
        return self.bottom + self.height

    @property
    def x(self) -> float:
        return self.left + self.width / 2

    @property
    def y(self) -> float:
        return self.bottom + self.height / 2


def tint(colour: str, share: float = 0.16) -> tuple[float, float, float]:
    """Mix a colour with white, so that `share` of the colour is left."""
    from matplotlib.colors import to_rgb

    red, green, blue = (1 - share * (1 - part) for part in to_rgb(colour))
    return red, green, blue


class Page:
    """A blank page as wide as the text, on whose axes one unit is one inch."""

    def __init__(self, height: float) -> None:
        from matplotlib import lines, patches, path  # only where something is drawn
        from matplotlib.figure import Figure

        self.lines, self.patches, self.path = lines, patches, path
        self.figure = Figure(figsize=(TEXT_WIDTH, height))
        self.ax = self.figure.add_axes((0, 0, 1, 1))
        self.ax.set(xlim=(0, TEXT_WIDTH), ylim=(0, height))
        self.ax.set_axis_off()

    def label(self, x: float, y: float, text: str, **style) -> Artist:
        """Write text, centred on the point unless `style` says otherwise."""
        middle = {"ha": "center", "va": "center_baseline", "fontsize": 7, "linespacing": 1.1, "zorder": 6}
        return self.ax.text(x, y, text, **middle | style)

    def box(
        self, rect: Rect, text: str = "", *, colour: str = TASK, fill: str = "", stripes: str = "", **style
    ) -> None:
        """Draw a box with rounded corners and text of a style in its middle; arrows pass behind it. The filling is a
        tint of the outline's colour by default, and alternates with tinted stripes of a second colour, if any."""
        face = self.ax.add_patch(self._rounded_box(rect, 0.04, facecolor=fill or tint(colour), edgecolor=colour))
        if stripes:
            width = 0.07
            for left in np.arange(rect.left - rect.height, rect.right, 2 * width):
                slope = [(0, 0), (width, 0), (width + rect.height, rect.height), (rect.height, rect.height)]
                band = self._polygon(np.add(slope, (left, rect.bottom)), facecolor=tint(stripes, 0.3), linewidth=0)
                band.set_clip_path(face)
            self.ax.add_patch(self._rounded_box(rect, 0.04, facecolor="none", edgecolor=colour))
        if text:
            self.label(rect.x, rect.y, text, **style)

    def _rounded_box(self, rect: Rect, radius: float, **style) -> Artist:
        shape = f"round,pad=0,rounding_size={radius}"
        outline = {"linewidth": LINE, "zorder": 2} | style
        return self.patches.FancyBboxPatch(rect[:2], rect.width, rect.height, boxstyle=shape, **outline)

    def _polygon(self, corners: Any, **style) -> Artist:
        return self.ax.add_patch(self.patches.Polygon(corners, **{"linewidth": LINE, "zorder": 2} | style))

    def _circle(self, centre: Point, radius: float, **style) -> Artist:
        return self.ax.add_patch(self.patches.Circle(centre, radius, **style))

    def pennant(self, rect: Rect, text: str, *, colour: str = TASK) -> None:
        """Draw a span of time as a pennant that points at what comes later."""
        tip = rect.height / 2
        ends = [rect[:2], (rect.right - tip, rect.bottom), (rect.right, rect.y), (rect.right - tip, rect.top)]
        self._polygon([*ends, (rect.left, rect.top), (rect.left + tip, rect.y)], facecolor="white", edgecolor=colour)
        self.label(rect.x, rect.y, text, fontsize=SMALL)

    def region(self, rect: Rect, colour: str = TASK) -> None:
        """Draw a pale field without outline behind things that belong together."""
        self.ax.add_patch(self._rounded_box(rect, 0.06, facecolor=tint(colour, 0.07), edgecolor="none", zorder=0))

    def arrow(self, *corners: Point, colour: str = INK, heavy: bool = False) -> None:
        """Draw an arrow along straight lines with rounded corners."""
        length, half = (3.2, 1.8) if heavy else (2.6, 1.4)
        head = {"arrowstyle": f"-|>,head_length={length},head_width={half}", "mutation_scale": 1, "zorder": 1}
        stroke = {"linewidth": HEAVY if heavy else LINE, "color": colour, "joinstyle": "miter", "capstyle": "butt"}
        self.ax.add_patch(self.patches.FancyArrowPatch(path=self._rounded(corners), **head, **stroke))

    def _rounded(self, corners: Sequence[Point]) -> Artist:
        points = [np.asarray(corner, float) for corner in corners]
        vertices, codes = [points[0]], [self.path.Path.MOVETO]
        for before, corner, after in zip(points, points[1:], points[2:], strict=False):
            legs = [end - corner for end in (before, after)]
            radius = min(0.06, *(np.linalg.norm(leg) / 2 for leg in legs))
            start, end = (corner + radius * leg / np.linalg.norm(leg) for leg in legs)
            vertices += [start, corner, end]
            codes += [self.path.Path.LINETO, self.path.Path.CURVE3, self.path.Path.CURVE3]
        return self.path.Path([*vertices, points[-1]], [*codes, self.path.Path.LINETO])

    def line(self, start: Point, end: Point, colour: str | tuple[float, ...] = INK, **style) -> None:
        """Draw a straight line."""
        xs, ys = zip(start, end, strict=True)
        self.ax.add_line(self.lines.Line2D(xs, ys, **{"color": colour, "linewidth": LINE, "zorder": 1, **style}))

    def mark(self, x: float, y: float, good: bool, size: float = 0.07) -> None:
        """Draw a tick (correct) or a cross (incorrect)."""
        tick = [[(-0.5, 0), (-0.2, -0.5), (0.5, 0.5)]]
        cross = [[(-0.42, -0.42), (0.42, 0.42)], [(-0.42, 0.42), (0.42, -0.42)]]
        style = {"color": INK, "linewidth": 0.9, "solid_capstyle": "round", "solid_joinstyle": "round", "zorder": 5}
        for stroke in tick if good else cross:
            self.ax.add_line(self.lines.Line2D(*(size * np.array(stroke) + (x, y)).T, **style))

    def sign(self, x: float, y: float, plus: bool) -> None:
        """Draw a full circle with a plus for a merit, or an empty circle with a minus for a drawback."""
        self._circle((x, y), 0.045, facecolor=INK if plus else "white", edgecolor=INK, linewidth=LINE, zorder=3)
        style = {"colour": "white" if plus else INK, "linewidth": 0.8, "zorder": 4}
        self.line((x - 0.025, y), (x + 0.025, y), **style)
        if plus:
            self.line((x, y - 0.025), (x, y + 0.025), **style)

    def sheet(self, rect: Rect, colour: str = TASK, *, behind: int = 0, good: bool | None = None) -> None:
        """Draw a written page, which stands for a response or a question, with `behind` further pages behind it; its
        lower half marks it as correct or incorrect unless `good` is None."""
        for shift in 0.035 * np.arange(behind, -1, -1):
            page = rect._replace(left=rect.left + shift, bottom=rect.bottom + shift)
            self.ax.add_patch(self._rounded_box(page, 0.015, facecolor="white", edgecolor=colour))
        lines = 4 if good is None else 2
        for row in range(lines):
            y = rect.top - (row + 1) * rect.height / 5
            end = rect.right - rect.width * (0.4 if row == lines - 1 else 0.2)
            self.line((rect.left + 0.2 * rect.width, y), (end, y), colour, zorder=3)
        if good is not None:
            self.mark(rect.x, rect.bottom + 0.27 * rect.height, good)

    def network(self, rect: Rect, colour: str, layers: Sequence[int] = (4, 4, 3, 2, 1)) -> None:
        """Draw a small feed-forward network from left to right."""
        radius = 0.021
        xs = np.linspace(rect.left + radius, rect.right - radius, len(layers))
        pitch = (rect.height - 2 * radius) / (max(layers) - 1)
        columns = [
            [(x, rect.y + pitch * (row - (n - 1) / 2)) for row in range(n)] for x, n in zip(xs, layers, strict=True)
        ]
        for column, following in pairwise(columns):
            for start in column:
                for end in following:
                    self.line(start, end, tint(colour, 0.55), linewidth=0.35, zorder=3)
        for node in chain.from_iterable(columns):
            self._circle(node, radius, facecolor=colour, edgecolor="white", linewidth=0.3, zorder=4)

    def gauge(self, rect: Rect, share: float, colour: str) -> None:
        """Draw a bar of which a share is filled."""
        for width, fill in ((rect.width, "white"), (share * rect.width, colour)):
            self.ax.add_patch(self._rounded_box(rect._replace(width=width), 0.02, facecolor=fill, edgecolor=colour))

    def bolt(self, x: float, y: float, colour: str, size: float = 0.17) -> None:
        """Draw a lightning bolt, which says that two things are in conflict."""
        outline = np.array([(0.12, 0.5), (-0.3, -0.08), (-0.02, -0.08), (-0.14, -0.5), (0.3, 0.12), (0.02, 0.12)])
        self._polygon(outline * size + (x, y), facecolor=colour, edgecolor=INK, linewidth=0.4, zorder=5)

    def barred(self, x: float, y: float) -> None:
        """Draw two short bars across a vertical arrow, which say that no gradient flows back."""
        for shift in (-0.014, 0.014):
            self.line((x - 0.055, y + shift - 0.02), (x + 0.055, y + shift + 0.02), linewidth=0.9, zorder=4)
