"""Sizes and colours that figures of a study share."""

from typing import Any

from cocal.drawing.style import TEXT_WIDTH

Colormap = Any
"""matplotlib's, in annotations."""

HALF_WIDTH = 0.48 * TEXT_WIDTH
"""Width in inches of a figure that shares the text's width with another one."""

PAGE_HEIGHT = 8.6
"""Greatest height of a figure in inches. It leaves space for a caption on a page with 9 inches of text."""

BACKBONE_COLOURS = ("#5b3a1e", "#b98b4e")
"""Colours of the first and the second backbone where they are compared. They are brown, which no method is, and dark
and light in greyscale."""
