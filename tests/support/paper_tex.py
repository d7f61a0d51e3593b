"""Reads the TeX source of the paper: the sentences of its text, and the titles above them."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = ROOT / "config/paper"
"""The published numbers and claims."""
TEX = Path(os.environ.get("COCAL_PAPER_TEX", ROOT / "../shared/paper/cocal.tex")).resolve()
needs_tex = pytest.mark.skipif(
    not TEX.is_file(), reason=f"the paper's source is not at {TEX}; COCAL_PAPER_TEX names another place"
)


def without_comments(tex: str) -> str:
    """The source without what follows a percent sign that is not escaped."""
    return re.sub(r"(?<!\\)%.*", "", tex)


def running_text(tex: str) -> str:
    """The abstract and all after it on one line, without tables, displayed formulas, algorithms and references."""
    text = without_comments(tex)
    text = text[text.index(r"\begin{abstract}") :]
    for name in ("table", "wraptable", "equation", "equation*", "quote"):
        escaped = re.escape(name)
        text = re.sub(rf"\\begin\{{{escaped}\}}.*?\\end\{{{escaped}\}}", " ", text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", text)


def headings(text: str) -> list[tuple[int, str]]:
    """Place and title of each section, subsection and paragraph of `running_text`; the abstract is one."""
    found = re.finditer(r"\\(?:section|subsection|paragraph)\*?\{((?:[^{}]|\{[^{}]*\})*)\}|\\begin\{(abstract)\}", text)
    return [(one.start(), (one[1] or "Abstract").replace(r"\coco{}", "CoCal").rstrip(".")) for one in found]
