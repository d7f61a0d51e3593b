"""Tables as a reader meets them: every printed value with the words that lead to it."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from cocal_study.exhibits.typesetting.grid import Block


class Printed(NamedTuple):
    """A value in print.

    Attributes:
        words: The corner of its block, the title of its group, its row's name, and its heads from top to bottom.
        text: The value without its mark.
        mark: "best", "second" or "".
        column: Its block and column, which tell the values that are ranked together.
    """

    words: tuple[str, ...]
    text: str
    mark: str
    column: tuple[int, int]

    @property
    def numbers(self) -> list[tuple[float, float]]:
        """The numbers of the value, one or one with its interval, each with half of its last digit."""
        plain = self.text.replace("−", "-").replace(",", "" if "[" not in self.text else ", ")
        found = re.findall(r"[-+]?\d+(?:\.\d+)?", plain)
        return [(float(one), 0.5 * 10.0 ** -len(one.partition(".")[2])) for one in found]


def of_blocks(blocks: Iterable[Block]) -> list[Printed]:
    """The values of blocks; tests/study/exhibits/test_typesetting.py holds how print and page show them."""
    return [
        Printed((block.corner, group.title, row.label, *heads), cell.text, cell.mark or "", (place, column))
        for place, block in enumerate(blocks)
        for group in block.groups
        for row in group.rows
        for column, (cell, heads) in enumerate(zip(row.cells, _heads(block), strict=True))
    ]


def _heads(block: Block) -> list[tuple[str, ...]]:
    """The heads of each column, from top to bottom."""
    return list(zip(*([head.text for head in line for _ in range(head.span)] for line in block.heads), strict=True))
