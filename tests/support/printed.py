"""Tables as a reader meets them: every printed value with the words that lead to it."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import NamedTuple

MARKS = {"textbf": "best", "underline": "second", "b": "best", "u": "second", "": ""}
_CHARACTERS = {r"\&": "&", r"\%": "%", r"\_": "_", "--": "–", "$-$": "−", r"$\times$": "×", r"$^{\dagger}$": "†"}
_CHARACTERS |= {r"$\uparrow$": "↑", r"$\downarrow$": "↓", r"$\mu$": "µ"}
_CHARACTERS |= {r"\textless{}": "<", r"\textgreater{}": ">"}
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


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


def of_page(html: str) -> list[Printed]:
    """The values of a page."""
    tables = (ET.fromstring(table) for table in re.findall(r"<table.*?</table>", html, re.DOTALL))
    return [value for place, table in enumerate(tables) for value in _of_table(place, table)]


def _of_table(place: int, table: ET.Element) -> Iterator[Printed]:
    (corner, *first), *others = ([*line] for line in table.iterfind("thead/tr"))
    lines = [[(_text(cell), int(cell.get("colspan", 1))) for cell in line] for line in (first, *others)]
    group = ""
    for body in table.iterfind("tbody"):
        group = ""
        for name, *cells in body.iterfind("tr"):
            if not cells:
                group = _text(name)
                continue
            for column, (cell, heads) in enumerate(zip(cells, _heads(lines), strict=True)):
                marked = next((inner.tag for inner in cell if inner.tag in MARKS), "")
                words = (_text(corner), group, _text(name), *heads)
                yield Printed(words, _text(cell).rstrip("†"), MARKS[marked], (place, column))


def _text(element: ET.Element) -> str:
    return "".join(element.itertext())


def _heads(lines: list[list[tuple[str, int]]]) -> list[tuple[str, ...]]:
    """The heads of each column, from top to bottom."""
    return list(zip(*([text for text, span in line for _ in range(span)] for line in lines), strict=True))


def of_latex(tex: str) -> list[Printed]:
    """The values of a file of LaTeX."""
    tables = re.findall(r"\\begin\{tabular\}.*?\n(.*?)\\end\{tabular\}", tex, re.DOTALL)
    return [value for place, table in enumerate(tables) for value in _of_tabular(place, table)]


def _of_tabular(place: int, table: str) -> Iterator[Printed]:
    top, *groups = re.split(r"\\midrule\n|\\bottomrule\n", table.replace("\\raggedright ", ""))
    corner, lines = "", []
    for line in re.sub(r"\n(?=& \\multi|\\\\)", " ", re.sub(r"\\(toprule|cmidrule.*)\n", "", top)).splitlines():
        name, *heads = (cell.strip() for cell in f" {line}".removesuffix(r"\\").split(" & "))
        corner = corner or re.sub(r"\\multirow\{\d\}\{\*\}\{(.*)\}", r"\1", name)
        spans = [re.fullmatch(r"\\multicolumn\{(\d+)\}\{c\}\{(.*)\}", head) for head in heads]
        lines.append([(_plain(s[2]), int(s[1])) if s else (_plain(h), 1) for s, h in zip(spans, heads, strict=True)])
    for group in groups:
        title = ""
        for line in group.strip().splitlines():
            if found := re.fullmatch(r"\\multicolumn\{\d+\}\{l\}\{\\textit\{(.*)\}\} \\\\", line):
                title = _plain(found[1])
                continue
            name, *cells = line.removesuffix(r" \\").split(" & ")
            for column, (cell, heads) in enumerate(zip(cells, _heads(lines), strict=True)):
                marked = re.fullmatch(r"\\(textbf|underline)\{(.*)\}(\$\^\{\\dagger\}\$)?", cell)
                text = _plain(marked[2] if marked else cell).rstrip("†")
                words = (_plain(corner), title, _plain(re.sub(r"^\\textbf\{(.*)\}$", r"\1", name)), *heads)
                yield Printed(words, text, MARKS[marked[1] if marked else ""], (place, column))


def _plain(tex: str) -> str:
    for written, character in _CHARACTERS.items():
        tex = tex.replace(written, character)
    return re.sub(r"\$\^\{([-\d]+)\}\$", lambda found: found[1].translate(_SUPERSCRIPTS), tex)
