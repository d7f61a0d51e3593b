"""A table as plain text with its arrangement and its marks, before it becomes LaTeX
(`cocal.exhibits.typesetting.latex`) or a web page (`cocal.exhibits.typesetting.html`)."""

from dataclasses import dataclass
from typing import Literal

Mark = Literal["best", "second"]


@dataclass(frozen=True)
class Cell:
    """One printed value. A doubtful value carries a dagger, and one of a degenerate confidence a double dagger, which
    the caption explains."""

    text: str
    mark: Mark | None = None
    doubtful: bool = False
    degenerate: bool = False


@dataclass(frozen=True)
class Row:
    """One line of a block, with its name, which may be bold, and its values."""

    label: str
    cells: tuple[Cell, ...]
    bold: bool = False


@dataclass(frozen=True)
class Group:
    """Rows between two rules. If the group has a title, it stands on a line above them."""

    rows: tuple[Row, ...]
    title: str = ""


@dataclass(frozen=True)
class Head:
    """Title of one column, or of several columns side by side."""

    text: str
    span: int = 1


@dataclass(frozen=True)
class Block:
    """Rows and columns under one head.

    Attributes:
        corner: Title above the row names.
        heads: Rows of column titles, from top to bottom.
        groups: Rows of values.
        align: Alignment of the values, centred, right or left; a web page breaks values that are flush left.
        width: Share of the text width to which print scales the block; None keeps its natural width.
        names: Share of the text width that print gives to the row names, breaking longer names; None gives them what
            they need.

    Raises:
        ValueError: if a row of titles or of values does not fill the columns.
    """

    corner: str
    heads: tuple[tuple[Head, ...], ...]
    groups: tuple[Group, ...]
    align: Literal["c", "r", "l"] = "c"
    width: float | None = None
    names: float | None = None

    def __post_init__(self) -> None:
        widths = {sum(head.span for head in line) for line in self.heads}
        widths |= {len(row.cells) for group in self.groups for row in group.rows}
        if len(widths) != 1:
            raise ValueError(f"the rows of a block have {sorted(widths)} columns")

    @property
    def columns(self) -> int:
        """Number of columns without the row names."""
        return sum(head.span for head in self.heads[-1])


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table with its title, its caption and the line that identifies its numbers.

    Attributes:
        title: Title in a few words, which a web page shows above the caption.
        caption: Caption in whole sentences.
        label: Label for cross-references, after `tab:`.
        blocks: Blocks from top to bottom.
        page_blocks: Blocks of the web page, if it shows them in another order.
        gap: Half the space between two columns in print.
        size: Font size in print; the caption keeps its own.
        apart: True if print gives each block its own float, for a table that is longer than a page.
        details: Further blocks that only the web page shows.
        source: Text that identifies the numbers by the study and by digests, once they are known.
    """

    title: str
    caption: str
    label: str
    blocks: tuple[Block, ...]
    page_blocks: tuple[Block, ...] = ()
    gap: str = "6pt"
    size: Literal["normalsize", "footnotesize"] = "normalsize"
    apart: bool = False
    details: tuple[Block, ...] = ()
    source: str = ""
