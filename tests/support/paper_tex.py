"""Reads the TeX source of the paper: the cells of its tables and the sentences of its text."""

import os
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = ROOT / "config/paper"
"""The published numbers and claims."""
TEX = Path(os.environ.get("COCAL_PAPER_TEX", ROOT / "../shared/paper/cocal.tex")).resolve()
needs_tex = pytest.mark.skipif(
    not TEX.is_file(), reason=f"the paper's source is not at {TEX}; COCAL_PAPER_TEX names another place"
)
_MARKS = {r"\textbf": "best", r"\underline": "second"}
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Cell(NamedTuple):
    """One printed value: row and column in words, the text without its mark, and the mark."""

    row: str
    column: str
    text: str
    mark: str


def without_comments(tex: str) -> str:
    """The source without what follows a percent sign that is not escaped."""
    return re.sub(r"(?<!\\)%.*", "", tex)


def one_line(tex: str) -> str:
    """The source without comments, with a single space for each stretch of white space."""
    return re.sub(r"\s+", " ", without_comments(tex))


def tables(tex: str) -> dict[str, list[Cell]]:
    """The cells of every table by its label, in reading order."""
    found = {}
    for _, body in re.findall(r"\\begin\{(table|wraptable)\}(.*?)\\end\{\1\}", without_comments(tex), re.DOTALL):
        label = re.search(r"\\label\{(tab:.*?)\}", body)[1]
        blocks = re.findall(r"\\begin\{tabular\}\{.*?\}\n(.*?)\\end\{tabular\}", body, re.DOTALL)
        found[label] = [cell for block in blocks for cell in _block(block)]
    return found


def running_text(tex: str) -> str:
    """The abstract and all after it on one line, without tables, displayed formulas, algorithms and references."""
    text = without_comments(tex)
    text = text[text.index(r"\begin{abstract}") :]
    for name in ("table", "wraptable", "equation", "equation*", "quote"):
        escaped = re.escape(name)
        text = re.sub(rf"\\begin\{{{escaped}\}}.*?\\end\{{{escaped}\}}", " ", text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", text)


def _block(block: str) -> list[Cell]:
    head, body = re.sub(r"\\(toprule|bottomrule)|\\cmidrule\(lr\)\{.*?\}", "", block).split(r"\midrule", 1)
    columns = _columns([_spread(line) for line in _lines(head)])
    cells, group = [], ""
    for line in _lines(body.replace(r"\midrule", "")):
        if line.startswith(r"\multicolumn"):
            group = f"{_spread(line)[0]}: "
            continue
        label, *values = line.split("&")
        row = group + _marked(label)[0]
        assert len(values) == len(columns), f"{row} has {len(values)} values in {len(columns)} columns"
        cells += [Cell(row, column, *_marked(value)) for column, value in zip(columns, values, strict=True)]
    return cells


def _columns(head: list[list[str]]) -> list[str]:
    """The title of each column: the title over several columns, a colon, and the lines below it."""
    names = []
    for column in zip(*(line[1:] for line in head), strict=True):
        over, below = (column[0], column[1:]) if len(column) > 1 else ("", column)
        title = " ".join(filter(None, below))
        names.append(f"{over}: {title}" if over else title)
    return names


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.split(r"\\") if line.strip()]


def _spread(line: str) -> list[str]:
    """The titles of a line of the head; one that spans several columns stands in each of them."""
    titles = []
    for part in line.split("&"):
        several = re.fullmatch(r"\s*\\multicolumn\{(\d+)\}\{\w\}\{(.*)\}\s*", part)
        title = re.sub(r"\\multirow\{\d+\}\{\*\}\{(.*)\}", r"\1", several[2] if several else part)
        titles += [_plain(title)] * (int(several[1]) if several else 1)
    return titles


def _marked(text: str) -> tuple[str, str]:
    found = re.fullmatch(r"(\\textbf|\\underline)\{(.*)\}", text.strip())
    return (_plain(found[2]), _MARKS[found[1]]) if found else (_plain(text), "")


def _plain(text: str) -> str:
    """TeX as plain text, without the arrows that point to better values."""
    for tex, plain in (
        (r"\coco{}", "CoCal"),
        (r"$\uparrow$", ""),
        (r"$\downarrow$", ""),
        (r"\approx", "≈"),
        (r"\times", "×"),
        (r"\%", "%"),
        ("--", "–"),
        ("$", ""),
    ):
        text = text.replace(tex, plain)
    text = re.sub(r"10\^\{(-?\d)\}", lambda found: "10" + found[1].translate(_SUPERSCRIPTS), text)
    return re.sub(r"\s+", " ", re.sub(r"\\textit\{(.*?)\}", r"\1", text)).strip()


_NO_NUMBERS = (
    r"\\(?:cite\w*|ref|eqref|label|bibliography\w*|texttt)(?:\[[^\]]*\])?\{[^}]*\}",
    r"\\looseness=-1|\\begin\{\w+\*?\}(?:\[[^\]]*\])*(?:\{[^}]*\})?(?:\{[^}]*\})?|\\includegraphics\s*\[[^\]]*\]",
    r"\\captionsetup\{[^}]*\}|\\(?:vspace|Needspace)\{[^}]*\}",
    r"Qwen3-8B|Qwen3-14B|Qwen2\.5-32B|MATH500|AIME24/25|AMC23/24|AMC2[34]|(?:AMC|AIME) 20\d\d|B200|BF16|GSPG",
    r"Section~5|(?:^|(?<= ))\(?[123]\)",  # a cross-reference and counted clauses
)
"""What has digits and is no number of the text: commands, names and counted clauses."""


def numbers(text: str) -> list[str]:
    """The numbers that a text writes in digits, in order; 10^2 is one number, and so is the version 0.9.2.

    Formulas have none, but for powers of ten and the sizes K = 8 and M = 10.
    """
    text = re.sub(r"\$([^$]*)\$", lambda found: found[1] if re.match(r"10\^|[KM]=", found[1]) else " ", text)
    for pattern in _NO_NUMBERS:
        text = re.sub(pattern, " ", text)
    return re.findall(r"10\^\d|\d[\d,]*(?:\.\d+)*K?(?<!,)", text)


def headings(text: str) -> list[tuple[int, str]]:
    """Place and title of each section, subsection and paragraph of `running_text`; the abstract is one."""
    found = re.finditer(r"\\(?:section|subsection|paragraph)\*?\{((?:[^{}]|\{[^{}]*\})*)\}|\\begin\{(abstract)\}", text)
    return [(one.start(), (one[1] or "Abstract").replace(r"\coco{}", "CoCal").rstrip(".")) for one in found]
