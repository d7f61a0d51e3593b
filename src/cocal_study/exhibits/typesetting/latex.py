"""Turns a grid into LaTeX, which needs the packages booktabs, multirow and graphicx; and the document of all tables."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

from cocal.errors import ContractError
from cocal_study.exhibits.typesetting.grid import Block, Cell, Grid, cell_of
from cocal_study.exhibits.typesetting.wording import DEGENERATE, DOUBTFUL

_CHARACTERS = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "–": "--",
        "−": "$-$",
        "×": r"$\times$",
        "↑": r"$\uparrow$",
        "↓": r"$\downarrow$",
        "µ": r"$\mu$",
        "†": r"$^{\dagger}$",
        "‡": r"$^{\ddagger}$",
    }
)
_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"
_DIGITS = str.maketrans(_SUPERSCRIPTS, "0123456789-")
_MARKUP = {"best": r"\textbf", "second": r"\underline"}


def escape(text: str) -> str:
    """Return plain text as LaTeX."""
    text = re.sub(r'"([^"]*)"', r"``\1''", text.translate(_CHARACTERS))
    return re.sub(f"[{_SUPERSCRIPTS}]+", lambda match: f"$^{{{match[0].translate(_DIGITS)}}}$", text)


def latex(grid: Grid) -> str:
    """Return a floating table, or several floats with one number if its blocks stand apart."""
    first = [rf"\caption{{{escape(grid.caption)}}}", rf"\label{{tab:{grid.label}}}"]
    again = [r"\addtocounter{table}{-1}", r"\caption{Continued.}"]
    parts = [(block,) for block in grid.blocks] if grid.apart else [grid.blocks]
    return "\n".join(
        [
            f"% {grid.source}",
            r"% needs \usepackage{booktabs,multirow,graphicx}",
            *(line for place, part in enumerate(parts) for line in _float(grid, again if place else first, part)),
            "",
        ]
    )


def _float(grid: Grid, caption: Sequence[str], blocks: Sequence[Block]) -> Iterator[str]:
    yield r"\begin{table}[tbp]"
    yield r"\centering"
    yield from caption
    yield r"\vspace{3pt}"
    if grid.size != "normalsize":
        yield rf"\{grid.size}"
    yield rf"\setlength{{\tabcolsep}}{{{grid.gap}}}"
    yield r"\renewcommand{\arraystretch}{1.08}"
    yield "\n\n\\vspace{2pt}\n\n".join("\n".join(_tabular(block)) for block in blocks)
    yield r"\end{table}"


def _tabular(block: Block) -> Iterator[str]:
    if block.width is not None:
        share = "" if block.width == 1 else f"{block.width:.3f}"
        yield rf"\resizebox{{{share}\textwidth}}{{!}}{{%"
    columns = len(block.heads[-1])
    names = "l" if block.names is None else rf"p{{{block.names:.3f}\textwidth}}"
    yield rf"\begin{{tabular}}{{{names}*{{{columns}}}{{{block.align}}}}}"
    yield r"\toprule"
    yield from _heads(block)
    for title, rows in block.groups:
        yield r"\midrule"
        if title:
            yield rf"\multicolumn{{{1 + columns}}}{{l}}{{\textit{{{escape(title)}}}}} \\"
        # Row names are set flush left, because justified lines would have wide gaps.
        left = "" if block.names is None else r"\raggedright "
        for label, cells in rows:
            yield left + _line(map(_cell, [label, *cells]))
    yield r"\bottomrule"
    yield r"\end{tabular}" if block.width is None else "\\end{tabular}%\n}"


def _heads(block: Block) -> Iterator[str]:
    rows = len(block.heads)
    corner = rf"\multirow{{{rows}}}{{*}}{{{escape(block.corner)}}}" if rows > 1 else escape(block.corner)
    for line in block.spans():
        if all(span == 1 for _, span in line):
            yield _line([corner, *(escape(title) for title, _ in line)]).lstrip()
        else:
            if corner:
                yield corner
            yield from (rf"& \multicolumn{{{span}}}{{c}}{{{escape(title)}}}" for title, span in line)
            yield r"\\"
            ends = accumulate((span for _, span in line), initial=1)
            yield "".join(rf"\cmidrule(lr){{{before + 1}-{end}}}" for before, end in pairwise(ends))
        corner = ""


def _cell(value: str | Cell) -> str:
    cell = cell_of(value)
    text = escape(re.sub(r"^-(?=\d)", "−", cell.text))
    marked = f"{_MARKUP[cell.mark]}{{{text}}}" if cell.mark else text
    return marked + escape(DOUBTFUL * cell.doubtful + DEGENERATE * cell.degenerate)


def _line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def document(tables: Sequence[Path], output: Path) -> str:
    r"""Return a document that \inputs the tables in order, each by its path from the folder of `output`. Raises
    ContractError if a table is missing."""
    for table in tables:
        if not table.is_file():
            raise ContractError(f"{table}: no such table; build it first")
    inputs = [Path(os.path.relpath(table, output.parent)).as_posix() for table in tables]
    return "\n".join(
        [
            "% needs pdflatex and these packages (Debian: texlive-latex-recommended, texlive-latex-extra)",
            r"\documentclass{article}",
            r"\usepackage[letterpaper,textwidth=5.5in,textheight=9in]{geometry}",
            r"\usepackage{booktabs,multirow,graphicx}",
            r"\begin{document}",
            *(rf"\input{{{path}}}" for path in inputs),
            r"\end{document}",
            "",
        ]
    )
