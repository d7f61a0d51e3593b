"""Sections, paragraphs and tables of the pages in Markdown."""

import re
import textwrap
from collections.abc import Iterable, Sequence

COLUMNS = 120
"""Width of the lines of the pages."""


def filled(text: str, indent: str = "") -> str:
    """A paragraph in lines of this width."""
    return textwrap.fill(text, COLUMNS, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def of_numbers(heads: list[str], rows: list[list[str]]) -> str:
    """A table of numbers."""
    return table([heads, ["--:"] * len(heads), *rows])


def table(rows: Iterable[Sequence[str]]) -> str:
    """A table, whose second row is the line below its heads."""
    return "\n".join(f"|{'|'.join(row)}|" for row in rows)


def with_section(page: str, name: str, section: str) -> str:
    """A page with another text between the marks of a section."""
    marks = f"<!--{name}-->\n", f"<!--/{name}-->"
    new, count = re.subn(rf"(?<={marks[0]}).*?(?={marks[1]})", lambda _: f"{section}\n", page, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"the marks of the section {name!r} are missing in a page; restore them from the repository")
    return new
