"""A table before it becomes LaTeX (cocal.exhibits.typesetting.latex) or a web page (cocal.exhibits.typesetting.html):
plain text, its places and its marks."""

from dataclasses import dataclass
from typing import Literal

from cocal.exhibits.typesetting.rank import Mark


@dataclass(frozen=True)
class Cell:
    """One printed value; a doubtful one carries a dagger that the caption explains."""

    text: str
    mark: Mark | None = None
    doubtful: bool = False


@dataclass(frozen=True)
class Row:
    """One line of a block: its name, bold or not, and its values."""

    label: str
    cells: tuple[Cell, ...]
    bold: bool = False


@dataclass(frozen=True)
class Group:
    """Rows between two rules, with a line above them if it has a title."""

    rows: tuple[Row, ...]
    title: str = ""


@dataclass(frozen=True)
class Head:
    """Title of one column, or of several side by side."""

    text: str
    span: int = 1


@dataclass(frozen=True)
class Block:
    """Rows and columns under one head.

    Attributes:
        corner: title of the row names.
        heads: rows of titles, top down.
        groups: rows of values.
        align: of the values, centred or right.
        width: share of the text width that print scales the block to; None: as wide as it is.
        names: share of the text width that the row names have in print, longer ones are broken; None: what they need.

    Raises:
        ValueError: if a row of titles or of values does not fill the columns.
    """

    corner: str
    heads: tuple[tuple[Head, ...], ...]
    groups: tuple[Group, ...]
    align: Literal["c", "r"] = "c"
    width: float | None = None
    names: float | None = None

    def __post_init__(self) -> None:
        widths = {sum(head.span for head in line) for line in self.heads}
        widths |= {len(row.cells) for group in self.groups for row in group.rows}
        if len(widths) != 1:
            raise ValueError(f"the rows of a block have {sorted(widths)} columns")

    @property
    def columns(self) -> int:
        """Number of columns, the names not counted."""
        return sum(head.span for head in self.heads[-1])


@dataclass(frozen=True)
class Grid:
    """A table with its words.

    Attributes:
        title: a few words; a web page has them above the caption.
        caption: whole sentences.
        label: of cross-references, after `tab:`.
        source: what identifies the numbers, such as the study and digests.
        blocks: one below the other.
        page_blocks: the same for a web page, where it shows them in another order; empty: as in print.
        gap: half the space between two columns in print.
        size: of the type in print, but for the caption.
        apart: whether print gives each block a float of its own, for a table that is longer than a page.
        details: further blocks, for the web page alone.
    """

    title: str
    caption: str
    label: str
    source: str
    blocks: tuple[Block, ...]
    page_blocks: tuple[Block, ...] = ()
    gap: str = "6pt"
    size: Literal["normalsize", "footnotesize"] = "normalsize"
    apart: bool = False
    details: tuple[Block, ...] = ()
